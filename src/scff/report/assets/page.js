"use strict";
// Which question is in sight; and a mark for whoever waits until the page is whole.
(() => {
  const links = [...document.querySelectorAll("nav a")];
  const watch = new IntersectionObserver(entries => {
    for (const e of entries) if (e.isIntersecting) for (const a of links)
      a.getAttribute("href") === "#" + e.target.id ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current");
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("section").forEach(s => watch.observe(s));
  document.documentElement.dataset.ready = Math.round(performance.now());
})();
