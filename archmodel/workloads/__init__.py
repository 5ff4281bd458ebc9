"""Models as layers and tables: DLRM, DCNv2. Exact FLOP and parameter counts; no hardware, no plan."""
