"""How a workload is laid over ranks: plans (what a user writes), placement (arrays over shards), lowering to a Program."""
