"""Questions that users type, as a few words: one of the first three pages of the site's own search answers each.

The site is built and opened from disk in Chromium, with the search that readers have.
"""

from __future__ import annotations

import importlib.util

import pytest

from tests import docs_site
from tests.inspect.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
    pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="needs mkdocs-material (EXTRAS=docs)"),
]

MODELS, TRAIN, SAVE = "how-to/models.html", "how-to/training.html", "how-to/saving.html"
GRADIENTS, SPEED, DEBUG = "how-to/gradients.html", "how-to/speed.html", "how-to/debugging.html"
DATA, DEVICES, TENSORS, SCIENCE = (f"how-to/{name}.html" for name in ("data", "devices", "tensors", "science"))

# What is typed, and the pages or sections of which any answers it.
QUESTIONS = {
    "install pip": ("install.html#install-with-pip-from-a-clone",),
    "install gpu": ("install.html#install-for-a-gpu", "cuda.html#install"),
    "pytorch quickstart": ("quickstart.html", "from-pytorch.html"),
    "write a module": (f"{MODELS}#write-a-module-of-your-own-custom-layer",),
    "list of layers": ("reference/lists.html#list-of-layers",),
    "list of optimizers": ("reference/lists.html#list-of-optimizers", "reference/optim.html"),
    "learning rate scheduler": ("reference/schedules.html", f"{TRAIN}#use-a-learning-rate-schedule"),
    "save and load model": (f"{SAVE}#save-and-load-a-model",),
    "load pretrained weights": (f"{SAVE}#load-pretrained-weights-resnet-gpt-2",),
    "freeze parameters": (f"{MODELS}#freeze-parameters-or-layers-fine-tuning-transfer-learning",),
    "clip gradients": (f"{TRAIN}#clip-gradients",),
    "gradient clipping": (f"{TRAIN}#clip-gradients", "reference/optim.html#gradient-clipping"),
    "initialize weights": (f"{MODELS}#initialise-weights-initialization", "reference/nn-init.html"),
    "initialise weights": (f"{MODELS}#initialise-weights-initialization",),
    "custom gradient": (f"{GRADIENTS}#define-a-custom-gradient",),
    "hessian vector product": (f"{GRADIENTS}#compute-a-hessian-vector-product-hvp",),
    "jacobian": (f"{GRADIENTS}#compute-a-jacobian",),
    "per-example gradients": (f"{GRADIENTS}#compute-per-example-gradients",),
    "mixed precision": ("mixed-precision.html", f"{TRAIN}#train-with-mixed-precision-bfloat16-float16"),
    "checkpointing": (f"{SPEED}#save-memory-with-activation-checkpointing", "reference/autodiff.html#checkpointing"),
    "dataloader": (f"{DATA}#use-a-dataloader-batches-shuffling-workers",),
    "train eval mode": (f"{MODELS}#switch-between-train-and-eval-mode",),
    "dropout": (f"{MODELS}#add-dropout", "reference/nn-normalization.html#dropout"),
    "find nan": (f"{DEBUG}#find-where-a-nan-comes-from",),
    "profile": (f"{SPEED}#profile-find-where-the-time-goes",),
    "random seed": (f"{TENSORS}#set-a-random-seed-reproducible-results",),
    "deterministic": (
        "reproducibility.html",
        f"{TENSORS}#set-a-random-seed-reproducible-results",
        "faq.html#is-it-deterministic",
    ),
    "numpy torch interop": (f"{TENSORS}#convert-between-numpy-pytorch-and-wengert-interop",),
    "several gpus": (f"{DEVICES}#use-several-gpus-multi-gpu-training",),
    "multi gpu": (f"{DEVICES}#use-several-gpus-multi-gpu-training",),
    "tensorboard": (f"{TRAIN}#log-to-tensorboard-logging-plots",),
    "out of memory": (
        f"{DEBUG}#what-to-do-when-memory-runs-out-out-of-memory-oom",
        "troubleshooting.html#out-of-memory-on-a-gpu-or-on-the-cpu",
    ),
    "control flow compile": (f"{SPEED}#use-if-for-and-while-loops-in-a-compiled-function", "dynamic-static.html"),
    "why recompile": (f"{SPEED}#find-out-why-a-function-recompiles",),
    "count parameters": (f"{MODELS}#count-parameters-and-print-a-summary-of-the-model",),
    "model summary": (f"{MODELS}#count-parameters-and-print-a-summary-of-the-model",),
    "hooks": (f"{MODELS}#use-hooks-to-look-at-activations-and-gradients", "reference/nn-module.html"),
    "no c compiler": ("troubleshooting.html#no-c-compiler-was-found", "install.html#the-c-compiler"),
    "macos": ("install.html#install-on-macos",),
    "windows": ("install.html#install-on-windows", "faq.html#does-it-run-on-macos-or-windows"),
    "onnx export": (f"{SAVE}#export-to-onnx",),
    "serve model": (f"{SAVE}#serve-a-model-in-production",),
    # More that users ask.
    "multi-label classification loss": (f"{TRAIN}#choose-a-loss-for-multi-label-classification",),
    "class weights": (f"{TRAIN}#use-class-weights-for-imbalanced-classes",),
    "early stopping": (f"{TRAIN}#stop-early-when-validation-stops-improving",),
    "gradient accumulation": (f"{TRAIN}#accumulate-gradients-over-several-batches-gradient-accumulation",),
    "weight decay bias": (f"{TRAIN}#add-weight-decay-l2-regularization-but-not-to-biases-and-norms",),
    "resume training": (f"{SAVE}#checkpoint-a-run-and-resume-it", "training.html"),
    "custom dataset": (f"{DATA}#write-a-custom-dataset",),
    "variable length sequences": (f"{MODELS}#handle-sequences-of-different-lengths-padding-and-packing",),
    "einsum": (f"{TENSORS}#use-einsum", "reference/products.html"),
    "complex gradient": (f"{GRADIENTS}#differentiate-complex-numbers", "complex.html"),
    "ode": (f"{SCIENCE}#solve-an-ode-integrate-and-differentiate-through-it", "ode.html", "reference/ode.html"),
    "unsqueeze": (f"{TENSORS}#add-remove-or-reorder-axes-unsqueeze-permute", "from-pytorch.html#methods-of-a-tensor"),
    "transfer learning": (f"{MODELS}#freeze-parameters-or-layers-fine-tuning-transfer-learning",),
    "weight initialization": (f"{MODELS}#initialise-weights-initialization",),
    "matrix inverse": ("reference/linalg.html#wg.linalg.inv",),
    "confusion matrix": (f"{TRAIN}#compute-a-confusion-matrix",),
    "L2 regularization": (f"{TRAIN}#add-weight-decay-l2-regularization-but-not-to-biases-and-norms",),
    "lazy evaluation": ("faq.html#is-evaluation-lazy-or-eager", "decisions/one-lazy-graph.html"),
    "data parallel": ("distributed.html#data-parallel", f"{DEVICES}#use-several-gpus-multi-gpu-training"),
    "license": ("faq.html#what-is-the-license",),
    "environment variables": ("install.html#environment-variables",),
    "how do I freeze layers": (f"{MODELS}#freeze-parameters-or-layers-fine-tuning-transfer-learning",),
    "how to write a custom layer": (f"{MODELS}#write-a-module-of-your-own-custom-layer",),
    "why is my function recompiled": (f"{SPEED}#find-out-why-a-function-recompiles",),
    "what to do when there is no C compiler": ("troubleshooting.html#no-c-compiler-was-found",),
    "how can I get reproducible results": (f"{TENSORS}#set-a-random-seed-reproducible-results", "reproducibility.html"),
    "speed up training": (f"{TRAIN}#speed-up-training-with-compile",),
    "language model": (f"{MODELS}#generate-text-with-a-gpt-language-model",),
    "integrate": (f"{SCIENCE}#solve-an-ode-integrate-and-differentiate-through-it",),
    "wengert launch": ("reference/commands.html#wengert-launch", "distributed.html"),
    "batch norm": ("reference/nn-normalization.html",),
    "layernorm": ("reference/nn-normalization.html#wg.nn.LayerNorm",),
    "data loader": (f"{DATA}#use-a-dataloader-batches-shuffling-workers",),
    "cross entropy": ("reference/functional.html", "reference/nn-loss.html"),
    "list of losses": ("reference/lists.html#list-of-losses", "reference/nn-loss.html"),
    "torch.cat": (f"{TENSORS}#concatenate-stack-and-split-torchcat",),
    "straight-through estimator": (f"{GRADIENTS}#use-a-straight-through-estimator",),
    "gradient is none": (f"{DEBUG}#why-is-my-gradient-none",),
    "ema": (f"{TRAIN}#keep-an-exponential-moving-average-of-the-weights-ema",),
    "detach": (f"{GRADIENTS}#stop-gradients-or-detach-a-value",),
    "tie weights": (f"{MODELS}#tie-weights-share-them-between-layers-weight-tying",),
    "clip_grad_norm_": ("reference/optim.html#wg.optim.clip_grad_norm_", f"{TRAIN}#clip-gradients"),
    "BatchNorm2d": ("reference/nn-normalization.html#wg.nn.BatchNorm2d",),
    "Adam": ("reference/optim.html#wg.optim.Adam",),
    "Conv2d": ("reference/nn-convolution.html#wg.nn.Conv2d",),
    "LSTM": ("reference/nn-recurrent.html#wg.nn.LSTM",),
    "cross_entropy": ("reference/functional.html#wg.cross_entropy",),
    "GPTConfig": ("reference/models.html#wg.models.GPTConfig",),
    "CosineAnnealingLR": ("reference/schedules.html#wg.optim.CosineAnnealingLR",),
    "softmax": ("reference/functional.html#wg.softmax", "reference/nn-activation.html#wg.nn.Softmax"),
    "benchmarks": ("benchmarks.html",),
    "architecture": ("architecture.html",),
    "jax": ("from-jax.html",),
    "cuda kernel": (f"{DEVICES}#write-a-cuda-kernel-of-my-own", "cuda.html#kernels-of-your-own"),
    "cpu threads": (f"{DEVICES}#choose-the-number-of-cpu-threads",),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = docs_site.build(tmp_path_factory.mktemp("site"))
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield docs_site.Site(folder, browser)
    browser.close()


def test_the_first_three_pages_of_the_search_answer_each_question(site):
    missed = {}
    for words, answers in QUESTIONS.items():
        found = site.search(words)[:3]
        if not any(answer in page for answer in answers for page in found):
            missed[words] = [page[0] for page in found]
    assert not missed, missed


def test_pages_opened_from_disk_report_no_error_and_link_to_files(site):
    for page in ("index.html", "how-to/models.html", "reference/nn-convolution.html", "benchmarks.html"):
        site.open(page)
        assert site.browser.errors == []
        addresses = site.browser.value(
            "[...document.querySelectorAll('a[href]')].map(a => a.href).filter(a => a.startsWith('file:'))"
        )
        assert addresses and all(address.split("#")[0].rpartition(".")[2] in ("html", "json") for address in addresses)
