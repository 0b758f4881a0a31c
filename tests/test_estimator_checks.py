"""scikit-learn's own estimator checks, in full."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from scff import FoldedClassifier


@parametrize_with_checks(
    [FoldedClassifier(backbone="nano"), FoldedClassifier(backbone="nano", cache=False, leaf_width=2)]
)
def test_sklearn(estimator, check):
    check(estimator)
