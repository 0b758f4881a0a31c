"""The arms of ``rivals.py``: one function each, from labelled rows and rows to ask to probabilities.

Every arm gets float32 tables that may hold missing values, and labels 0 to k - 1, each on at least four rows (in the
published folds: more). It returns probabilities of the k classes and facts about the model that belong in the record.
Whatever an arm chooses, it chooses by cross-validation inside the labelled rows. All run on one thread.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

Answer = tuple[np.ndarray, dict[str, Any]]
Arm = Callable[[np.ndarray, np.ndarray, np.ndarray], Answer]

#: The backbone of the arms that are a simple way to make a frozen model read a wide table.
BACKBONE = "tabpfn-v1"
#: Columns that this backbone reads at once, and its own number of ensemble views.
WIDTH, VIEWS = 100, 8
#: Columns that the elastic net keeps, by ANOVA F inside each fold: its solver is slow on thousands.
ELASTIC_NET_COLUMNS = 500
#: What LightGBM may choose from; everything else, and the number of trees, is common to all.
LIGHTGBM_CHOICES: tuple[dict[str, Any], ...] = (
    {"num_leaves": 7, "min_data_in_leaf": 4, "feature_fraction": 0.3},
    {"num_leaves": 15, "min_data_in_leaf": 10, "feature_fraction": 0.3},
    {"num_leaves": 15, "min_data_in_leaf": 2, "feature_fraction": 0.1, "extra_trees": True},
    {"num_leaves": 15, "min_data_in_leaf": 5, "feature_fraction": 1.0},
)


def folds(y: np.ndarray, most: int = 3) -> StratifiedKFold:
    """Inner folds: three, or as many as the rarest class has rows."""
    return StratifiedKFold(min(most, int(np.bincount(y).min())), shuffle=True, random_state=0)


def standardised(X: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median-filled columns of mean 0 and variance 1, learnt from the labelled rows."""
    scale = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return scale.fit_transform(X.astype(np.float64)), scale.transform(Q.astype(np.float64))


def rotated(X: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised rows in a basis of the space that the labelled rows span.

    Distances and products among labelled rows, and products of queries with them, stay as they are: whatever is linear
    with an L2 penalty has the same solution there, on at most as many columns as there are labelled rows.
    """
    X, Q = standardised(X, Q)
    if X.shape[1] <= X.shape[0]:
        return X, Q
    basis = np.linalg.svd(X, full_matrices=False)[2]
    return X @ basis.T, Q @ basis.T


def logistic(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """Logistic regression, its L2 penalty chosen by log-loss."""
    X, Q = rotated(X, Q)
    model = LogisticRegressionCV(
        Cs=np.logspace(-4, 1, 6),
        cv=folds(y),
        scoring="neg_log_loss",
        l1_ratios=(0.0,),
        max_iter=5_000,
        use_legacy_attributes=False,
    ).fit(X, y)
    return model.predict_proba(Q), {"C": float(model.C_)}


def logistic_inner(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """Logistic regression whose inner folds fill and scale for themselves, as they would have to on new rows.

    That matters for columns that are nearly always zero: a new row may lie hundreds of deviations away. The penalty is
    stronger there, and the log-loss better; not always the accuracy.
    """
    Cs = np.logspace(-4, 1, 6)

    def path(X: np.ndarray, y: np.ndarray, Q: np.ndarray, Cs: np.ndarray) -> list[np.ndarray]:
        X, Q = rotated(X, Q)
        model = LogisticRegression(max_iter=5_000, warm_start=True)
        return [model.set_params(C=C).fit(X, y).predict_proba(Q) for C in Cs]

    best = least_loss(path, X, y, Cs)
    return path(X, y, Q, Cs[best : best + 1])[0], {"C": float(Cs[best])}


def least_loss(path: Callable[..., list[np.ndarray]], X: np.ndarray, y: np.ndarray, Cs: np.ndarray) -> int:
    """Return which penalty of a path has the least log-loss on the inner folds."""
    losses = np.zeros(len(Cs))
    for train, test in folds(y).split(X, y):
        for i, p in enumerate(path(X[train], y[train], X[test], Cs)):
            losses[i] += log_loss(y[test], p, labels=np.unique(y), normalize=False)
    return int(losses.argmin())


def logistic_plain(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """Logistic regression as everybody tries it first; on complete tables."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000)).fit(X, y)
    return model.predict_proba(Q), {}


def elastic_net(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """Logistic regression with half an L1 penalty, its strength chosen by log-loss, on the strongest columns."""
    Cs = np.logspace(-2.5, 1, 6)

    def path(X: np.ndarray, y: np.ndarray, Q: np.ndarray, Cs: np.ndarray) -> list[np.ndarray]:
        X, Q = standardised(X, Q)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # constant columns have no F; a slow end of the path is no error
            keep = SelectKBest(f_classif, k=min(ELASTIC_NET_COLUMNS, X.shape[1])).fit(X, y)
            model = LogisticRegression(
                l1_ratio=0.5, solver="saga", warm_start=True, tol=1e-3, max_iter=300, random_state=0
            )
            X, Q = np.float32(keep.transform(X)), np.float32(keep.transform(Q))
            return [model.set_params(C=C).fit(X, y).predict_proba(Q) for C in Cs]

    best = least_loss(path, X, y, Cs)
    return path(X, y, Q, Cs[: best + 1])[-1], {"C": float(Cs[best])}


def svm(X: np.ndarray, y: np.ndarray, Q: np.ndarray, kernel: str) -> Answer:
    """Support vector machine with calibrated probabilities; everything is chosen by their log-loss."""
    X, Q = rotated(X, Q) if kernel == "linear" else standardised(X, Q)
    grid: dict[str, Any] = {"estimator__C": np.logspace(-4, 0, 5)}
    if kernel == "rbf":
        grid = {"estimator__C": [0.3, 1.0, 3.0, 10.0, 30.0], "estimator__gamma": np.array([0.1, 0.3, 1]) / X.shape[1]}
        if X.shape[1] > X.shape[0]:  # distances among labelled rows as they are, and those of queries with them
            basis = np.linalg.svd(X, full_matrices=False)[2]
            rest = np.sqrt(np.maximum((Q**2).sum(1) - ((Q @ basis.T) ** 2).sum(1), 0))
            X, Q = np.c_[X @ basis.T, np.zeros(len(X))], np.c_[Q @ basis.T, rest]
    if y.max() > 1:
        grid["method"] = ["sigmoid", "temperature"]
    inner = folds(y)
    smallest = int(np.bincount(y).min())
    within = min(3, smallest - -(-smallest // inner.n_splits))  # rows of the rarest class that every fold leaves
    calibrated = CalibratedClassifierCV(SVC(kernel=kernel), cv=StratifiedKFold(within), ensemble=False)
    search = GridSearchCV(calibrated, grid, scoring="neg_log_loss", cv=inner).fit(X, y)
    return search.predict_proba(Q), {key.removeprefix("estimator__"): str(search.best_params_[key]) for key in grid}


def random_forest(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """Random forest of 500 trees."""
    impute = SimpleImputer(strategy="median", keep_empty_features=True)
    model = make_pipeline(impute, RandomForestClassifier(500, n_jobs=1, random_state=0)).fit(X, y)
    return model.predict_proba(Q), {}


def lightgbm_default(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """LightGBM as it comes."""
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(n_jobs=1, random_state=0, verbose=-1).fit(X, y)
    return model.predict_proba(Q), {}


def lightgbm(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """LightGBM on few rows: shape and number of trees by cross-validated log-loss, three boosters averaged."""
    import lightgbm as lgb

    k = int(y.max()) + 1
    task = {"objective": "binary"} if k == 2 else {"objective": "multiclass", "num_class": k}
    common = {
        "learning_rate": 0.05 if k == 2 else 0.1,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "lambda_l2": 1.0,
        "max_bin": 63,
        "min_data_in_bin": 1,
        "num_threads": 1,
        "force_col_wise": True,
        "feature_pre_filter": False,
        "verbosity": -1,
        "seed": 0,
        **task,
    }
    tried = []
    inner = list(folds(y).split(X, y))
    for choice in LIGHTGBM_CHOICES:
        params = {**common, **choice}
        stop = lgb.early_stopping(30, verbose=False)
        result = lgb.cv(params, lgb.Dataset(X, y, params=params), 500, folds=inner, callbacks=[stop])
        curve = next(values for key, values in result.items() if key.endswith("-mean"))
        tried.append((min(curve), len(curve), choice))
    _, trees, choice = min(tried, key=lambda one: one[0])
    p = np.zeros((len(Q), k))
    for seed in range(3):
        params = {**common, **choice, "seed": seed}
        raw = lgb.train(params, lgb.Dataset(X, y, params=params), trees).predict(Q, num_threads=1)
        p += (np.c_[1 - raw, raw] if k == 2 else raw) / 3
    return p, {"trees": trees, **choice}


def folded(X: np.ndarray, y: np.ndarray, Q: np.ndarray, **options: Any) -> Answer:
    """Return what a `FoldedClassifier` with these options says."""
    from scff import FoldedClassifier

    model = FoldedClassifier(**options).fit(X, y)
    return model.predict_proba(Q), {"checkpoint": model.checkpoint_.sha256[:12]}


def kbest(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """Keep the columns of the largest ANOVA F that the backbone can read, then its own ensemble on those."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # constant columns have no F
        filled = SimpleImputer(strategy="median", keep_empty_features=True).fit_transform(X)
        keep = SelectKBest(f_classif, k=min(WIDTH, X.shape[1])).fit(filled, y).get_support()
    return folded(X[:, keep], y, Q[:, keep], backbone=BACKBONE, method="native", n_estimators=VIEWS)


def subsets(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """Average the backbone over random subsets of the columns, one view each ("divide and conquer", Ye et al. 2025)."""
    random = np.random.default_rng(0)
    p, facts = np.zeros((len(Q), int(y.max()) + 1)), {}
    for i in range(VIEWS):
        some = random.choice(X.shape[1], min(WIDTH, X.shape[1]), replace=False)
        answer, facts = folded(X[:, some], y, Q[:, some], backbone=BACKBONE, method="native", random_state=i)
        p += answer / VIEWS
    return p, facts


class GeneICL:
    """GeneICL in an interpreter of its own, which starts with the first question and stays until the end of the run."""

    def __init__(self, python: Path | None) -> None:
        self.python = python
        self.worker: subprocess.Popen[str] | None = None

    def __call__(self, X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
        """Average its three checkpoints, one forward pass each."""
        if self.python is None:
            raise RuntimeError("--geneicl-python names an interpreter that has geneicl==1.0.0")
        if self.worker is None or self.worker.poll() is not None:
            script = Path(__file__).with_name("rivals_geneicl.py")
            command = [str(self.python), str(script)]
            self.worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.worker.stdin is not None
        assert self.worker.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder) / "in.npz", X=X, y=y, Q=Q)
            self.worker.stdin.write(folder + "\n")
            self.worker.stdin.flush()
            line = self.worker.stdout.readline()
            if not line:
                raise RuntimeError("the interpreter of GeneICL ended")
            facts = json.loads(line)
            if "error" in facts:
                raise RuntimeError(facts["error"])
            return np.load(Path(folder) / "out.npy"), facts


def arms(geneicl_python: Path | None = None) -> dict[str, Arm]:
    """Return every arm by its name, ours first."""
    ours = {
        f"{method}/{backbone}": partial(folded, backbone=backbone, method=method)
        for backbone in ("tabpfn-v1", "nano")
        for method in ("auto", "scff")
    }
    return {
        **ours,
        "logistic": logistic,
        "logistic-inner": logistic_inner,
        "logistic-plain": logistic_plain,
        "elastic-net": elastic_net,
        "svm-linear": partial(svm, kernel="linear"),
        "svm-rbf": partial(svm, kernel="rbf"),
        "random-forest": random_forest,
        "lightgbm": lightgbm,
        "lightgbm-default": lightgbm_default,
        "geneicl": GeneICL(geneicl_python),
        "native": partial(folded, backbone=BACKBONE, method="native", n_estimators=VIEWS),
        "subsets": subsets,
        "kbest": kbest,
    }
