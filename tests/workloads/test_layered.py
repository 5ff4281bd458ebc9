"""Workloads as lists of layers: sizes against what is published of them."""

import pytest

from archmodel import catalogue, source
from archmodel.errors import DesignError
from archmodel.parallel.dense import parameters
from archmodel.source import read, validate
from archmodel.workloads.layered import Layered
from archmodel.workloads.layers import Attention, Conv, Lstm


def workload(name):
    tree = read(catalogue.find(f"workloads/{name}.yaml"), catalogue=catalogue.directory())
    return validate(Layered, source.strip(tree))


def test_resnet_50_has_the_gradients_of_the_public_list_of_layers():
    """Resnet50_DataParallel.txt of ASTRA-sim 1.0: 54 all-reduces, 102,011,648 bytes in fp32."""
    model = workload("resnet50")
    assert len(model.layers()) == 54
    assert 4 * model.dense_parameters == 102_011_648
    bytes_of = {layer.name: 4 * layer.parameters for layer in model.layers()}
    assert bytes_of["conv1"] == 37_632
    assert bytes_of["layer_64_2_conv1"] == 65_536
    assert bytes_of["layer_256_1_conv4"] == 2_097_152
    assert bytes_of["layer_512_3_conv2"] == 9_437_184
    assert bytes_of["fc1000"] == 8_192_000


def test_resnet_50_does_four_billion_products_an_image():
    """4.1 GMAC is what torchvision's model with strides on the 3 x 3 convolutions is known for."""
    assert workload("resnet50").flops_per_sample / 2 == pytest.approx(4.09e9, rel=0.005)


def test_dlrm_has_the_bytes_of_the_public_list_of_layers():
    """DLRM_HybridParallel.txt of ASTRA-sim 1.0."""
    layers = {layer.name: layer for layer in workload("dlrm_hybrid").layers()}
    in_file = [13_312, 524_288, 524_288, 16_384, 1_064_960, 524_288, 524_288]
    assert [4 * x.parameters for name, x in layers.items() if name != "embedding"] == in_file
    assert 512 * 4 * layers["embedding"].out_features == 98_304
    assert layers["top0"].inputs == ("embedding", "bottom3")


def test_gnmt_layer_by_layer():
    """An LSTM has 4 h (x + h + 1) parameters in each direction; by hand from section 3 of arXiv 1609.08144."""
    model = workload("gnmt")
    h = 1024
    cell = 4 * h * (h + h + 1)
    wide = 4 * h * (2 * h + h + 1)
    expected = {
        "source_table": 32_000 * h,
        "encoder1": 2 * cell,
        "encoder2": wide,
        **{f"encoder{i}": cell for i in range(3, 9)},
        "target_table": 32_000 * h,
        "decoder1": cell,
        "attention": 2 * h * h + h,
        **{f"decoder{i}": wide for i in range(2, 9)},
        "classifier": 32_000 * (h + 1),
    }
    assert {layer.name: layer.parameters for layer in model.layers()} == expected
    tokens = 25
    lstm = sum(v for k, v in expected.items() if k.startswith(("encoder", "decoder"))) - 4 * h * 17
    products = lstm * tokens + tokens * 2 * h * h + 2 * tokens * tokens * h + tokens * 32_000 * h
    assert model.flops_per_sample == 2 * products


def test_parameters_by_name():
    layers = (
        Conv("a", ("x",), 3, 8, 3, 16, 16, True),
        Lstm("b", ("a",), 4, 5, 6, 2),
        Attention("c", ("b",), 7, 2, 3),
    )
    assert parameters(layers) == {
        "a.weight": 216, "a.bias": 8,
        "b.input": 160, "b.recurrent": 200, "b.bias": 40,
        "c.query": 49, "c.key": 49, "c.score": 7,
    }  # fmt: skip


BAD = {
    "layers: {a: {kind: conf, in_channels: 3, out_channels: 8, size: 4}}": "did you mean conv",
    "layers: {}": "at least 1",
    "layers: {a: {kind: linear, in_features: 3, out_features: 8, widht: 4}}": "layers.a.widht .*unknown field",
    "layers: {a: {kind: linear, in_features: 3, out_features: 8}, b: {kind: linear, after: [c], in_features: 8, "
    "out_features: 8}}": "b reads 'c', which no layer before it is",
    "layers: {a: {kind: exchange, width: 4}}\ntables: {t: {num_embeddings: 10, embedding_dim: 4}}": "has no tables",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_with_a_list_is_said(text, tmp_path):
    file = tmp_path / "w.yaml"
    file.write_text(f"kind: layers\nglobal_batch: 8\n{text}\n")
    with pytest.raises(DesignError, match=BAD[text]):
        validate(Layered, read(file))
