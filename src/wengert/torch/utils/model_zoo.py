"""`torch.utils.model_zoo`: `load_url`, where it has been since the beginning."""
