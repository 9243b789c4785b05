"""`torch.nn.parallel.distributed`: where PyTorch has `DistributedDataParallel` too."""
