"""Value-based baselines: they learn action values from a simulator and act greedily."""

from tessella.baselines.fitted_q import FittedQ
from tessella.baselines.tabular_q import (
    ConstantStep,
    DecayingStep,
    DoubleQ,
    TabularQ,
    Trajectory,
    UniformPairs,
)
from tessella.baselines.train import train, train_batch
from tessella.baselines.training import TrainedPolicy, TrainingCurve

BASELINES = {"double_q": DoubleQ, "fitted_q": FittedQ, "tabular_q": TabularQ}
