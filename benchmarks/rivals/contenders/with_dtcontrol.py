"""Fit dtControl's trees to one table:  python with_dtcontrol.py NAME.dtcontrol.csv

Prints JSON: nodes, processor seconds and accuracy of an axis tree and of a tree with linear splits,
from its presets ``cart`` and ``logreg``.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings

from dtcontrol.dataset.single_output_dataset import SingleOutputDataset
from dtcontrol.decision_tree.decision_tree import DecisionTree
from dtcontrol.decision_tree.impurity.entropy import Entropy
from dtcontrol.decision_tree.splitting.axis_aligned import AxisAlignedSplittingStrategy
from dtcontrol.decision_tree.splitting.linear_classifier import LinearClassifierSplittingStrategy
from sklearn.linear_model import LogisticRegression


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable()
    data = SingleOutputDataset(sys.argv[1])
    data.load_if_necessary()
    lines = LinearClassifierSplittingStrategy(LogisticRegression, solver="lbfgs", penalty="none")
    presets = {
        "axes": [AxisAlignedSplittingStrategy()],
        "lines": [AxisAlignedSplittingStrategy(), lines],
    }
    results = {}
    for name, splits in presets.items():
        tree, start = DecisionTree(splits, Entropy(), name), time.process_time()
        tree.fit(data)
        seconds = time.process_time() - start
        accuracy = data.compute_accuracy(tree.predict(data, actual_values=False))
        results[name] = {"nodes": tree.get_stats()["nodes"], "s": seconds, "accuracy": accuracy}
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main()
