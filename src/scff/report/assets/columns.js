"use strict";
// The table of columns: only the rows in sight exist, so ten thousand cost what forty do.
(() => {
  const data = JSON.parse(document.getElementById("columns").textContent);
  const strata = ["core", "tail", "unused", "native"];
  const grid = document.getElementById("grid"), body = grid.querySelector("tbody");
  const box = document.getElementById("search"), count = document.getElementById("count");
  const heads = [...grid.querySelectorAll("th[data-key]")], chips = [...document.querySelectorAll("[data-stratum]")];
  const n = data.name.length, ROW = 32, HIGH = 440, END = 6, MARGIN = 8, PRINTED = 60;
  const lower = data.name.map(s => s.toLowerCase());
  const leafEffect = data.leaf.map(k => k < 0 ? null : data.effect[k]);
  const F = data.F.map(v => v === null ? Infinity : v);  // JSON has no infinity: null is a perfect separation
  const high = data.high || [];
  const keys = { rank: i => i, name: i => data.name[i], F: i => F[i], q: i => data.q[i], way: i => data.way[i] === null ? -Infinity : Math.abs(data.way[i]),
                 worth: i => data.worth[i] === null ? -Infinity : data.worth[i],
                 leaf: i => data.leaf[i], effect: i => leafEffect[i] === null ? -Infinity : leafEffect[i] };
  let order = Array.from({ length: n }, (_, i) => i), sort = { key: "rank", down: false }, rows = order, all = false;

  const show = v => {
    if (v === null) return "–";
    if (!isFinite(v)) return v > 0 ? "∞" : "-∞";
    const a = Math.abs(v);
    if (a === 0) return "0";
    if (a >= 1e5 || a < 1e-3) return v.toExponential(2);
    return a >= 1000 ? v.toFixed(0) : v.toPrecision(3);
  };
  const brief = v => v === null ? "–" : Math.abs(v) >= 100 ? v.toFixed(0) : v.toFixed(2);
  const way = i => data.high === null ? (data.way[i] === null ? "–" : (data.way[i] > 0 ? "+" : "") + brief(data.way[i]))
    : high[i] < 0 ? "–" : data.classes[high[i]] + (data.way[i] === null ? "" : " +" + brief(Math.abs(data.way[i])));
  const worth = i => data.worth[i] === null ? "–" : data.worth[i] === 0 && !data.noise[i] ? "0" : (data.worth[i] >= 0 ? "+" : "−") + Math.abs(data.worth[i]).toFixed(3) + " ± " + (data.noise[i] === null ? "–" : data.noise[i].toFixed(3));
  const leafName = k => k < 0 ? "–" : k < data.coreLeaves ? "Core " + (k + 1) : "Tail " + (k - data.coreLeaves + 1);
  const cell = (text, cls) => { const td = document.createElement("td"); td.textContent = text; if (cls) td.className = cls; return td; };
  // Where there is no room, the end of a name stays: identifiers differ there.
  const bothEnds = name => { if (name.length <= 2 * END) return name; const box = document.createElement("span"); box.className = "ends";
    for (const part of [name.slice(0, -END), name.slice(-END)]) { const span = document.createElement("span"); span.textContent = part; box.append(span); } return box; };
  const spacer = height => { const tr = document.createElement("tr"); tr.className = "spacer"; tr.setAttribute("aria-hidden", "true");
    const td = document.createElement("td"); td.colSpan = heads.filter(h => h.offsetParent !== null).length;  // a phone hides some
    td.style.height = height + "px"; tr.append(td); return tr; };
  const line = (i, at) => {
    const tr = document.createElement("tr"); tr.setAttribute("aria-rowindex", at + 2); tr.dataset.position = data.position[i];
    const name = cell("", "left"); name.title = data.name[i]; name.append(bothEnds(data.name[i]));
    const leaf = document.createElement("td"), badge = document.createElement("span"), stratum = strata[data.stratum[i]];
    badge.className = "badge " + stratum; badge.textContent = data.leaf[i] < 0 || stratum === "native" ? { core: "Core", tail: "Tail", native: "all" }[stratum] || stratum : leafName(data.leaf[i]); leaf.append(badge);
    const goes = cell(way(i)); goes.title = goes.textContent;
    tr.append(cell(i + 1), name, cell(show(F[i])), cell(show(data.q[i])), goes, cell(worth(i)), leaf, cell(show(leafEffect[i])));
    return tr;
  };
  const draw = () => {
    const from = all ? 0 : Math.max(0, Math.floor(grid.scrollTop / ROW) - MARGIN);
    const to = all ? Math.min(rows.length, PRINTED) : Math.min(rows.length, from + Math.ceil(grid.clientHeight / ROW) + 2 * MARGIN);
    const part = [];
    for (let k = from; k < to; k++) part.push(line(rows[k], k));
    if (!all) { part.unshift(spacer(from * ROW)); part.push(spacer((rows.length - to) * ROW)); }
    body.replaceChildren(...part);
  };
  const filter = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set(chips.filter(c => c.checked).map(c => strata.indexOf(c.dataset.stratum)));
    rows = order.filter(i => wanted.has(data.stratum[i]) && words.every(w => lower[i].includes(w)));
    count.textContent = rows.length === n ? n.toLocaleString("en") + " columns" : rows.length.toLocaleString("en") + " of " + n.toLocaleString("en") + " columns";
    grid.querySelector("table").setAttribute("aria-rowcount", rows.length + 1);
    grid.scrollTop = 0; draw();
  };
  const resort = () => {
    const value = keys[sort.key], sign = sort.down ? -1 : 1;
    order = Array.from({ length: n }, (_, i) => i);
    if (sort.key === "name") {
      const compare = new Intl.Collator("en", { numeric: true }).compare;
      order.sort((a, b) => sign * compare(data.name[a], data.name[b]) || a - b);
    } else order.sort((a, b) => { const x = value(a), y = value(b); return (x < y ? -sign : x > y ? sign : 0) || a - b; });
    for (const h of heads) h.setAttribute("aria-sort", h.dataset.key === sort.key ? (sort.down ? "descending" : "ascending") : "none");
    filter();
  };
  for (const h of heads) h.querySelector("button").addEventListener("click", () => {
    const key = h.dataset.key;
    sort = { key, down: sort.key === key ? !sort.down : ["F", "effect", "way", "worth"].includes(key) };
    resort();
  });
  for (const c of chips) c.addEventListener("change", filter);
  box.addEventListener("input", filter);
  let waiting = false;
  grid.addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); } });
  addEventListener("resize", draw);
  addEventListener("beforeprint", () => { all = true; draw(); });
  addEventListener("afterprint", () => { all = false; draw(); });
  grid.style.height = Math.min(HIGH, n * ROW + grid.querySelector("thead").offsetHeight + 2) + "px";  // few columns need no large box
  resort();
})();
