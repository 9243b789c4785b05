"""`torch.distributed._composable`: where PyTorch had `fully_shard` once."""
