"""`torch.distributed.elastic`: what scripts of torchrun name."""
