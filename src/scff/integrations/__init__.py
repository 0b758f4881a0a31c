"""Where people already work: AutoGluon, TabArena, MLflow. Each module needs its package; nothing else imports it."""
