"""Other tools' files in and out: TorchRec plans and constraints, table lists, plan files."""
