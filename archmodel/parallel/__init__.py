"""How a workload is laid over ranks: plans as written, placement (arrays over shards), lowering."""
