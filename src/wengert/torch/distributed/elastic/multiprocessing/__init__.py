"""`torch.distributed.elastic.multiprocessing`: what scripts of torchrun name."""
