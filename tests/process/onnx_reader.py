"""A small reader of ONNX: protocol buffers taken apart by hand, operators in
NumPy. It knows what the tests need, and refuses the rest; written from the
descriptions of the formats, apart from the encoder in apps/onnx.
"""
import math
import struct

import numpy

TYPES = {1: numpy.float32, 2: numpy.uint8, 7: numpy.int64, 11: numpy.float64}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        shift += 7
        at += 1
        if byte < 128:
            return value - (1 << 64 if value >> 63 else 0), at


def fields(data):
    """[(number, value)] of a message: ints, floats of four bytes, bytes."""
    at, out = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "a field beyond the end"
        elif wire == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            raise ValueError(f"wire type {wire}")
        out.append((number, value))
    return out


class Message:
    def __init__(self, data):
        self.fields = fields(data)

    def all(self, number):
        return [value for n, value in self.fields if n == number]

    def one(self, number, fallback=None):
        found = self.all(number)
        assert len(found) <= 1, f"field {number} {len(found)} times"
        return found[0] if found else fallback

    def text(self, number):
        return self.one(number, b"").decode()

    def texts(self, number):
        return [value.decode() for value in self.all(number)]

    def messages(self, number):
        return [Message(value) for value in self.all(number)]


def tensor(m):
    array = numpy.frombuffer(m.one(9), TYPES[m.one(2)])
    return array.reshape(m.all(1))


def attribute(m):
    """INT, FLOAT or INTS, as its type says."""
    return {2: lambda: m.one(3), 1: lambda: m.one(2),
            7: lambda: m.all(8)}[m.one(20)]()


class Model:
    def __init__(self, data):
        model = Message(data)
        assert model.one(1) == 7, "IR version"
        opset, = model.messages(8)
        self.opset = (opset.text(1), opset.one(2))
        self.producer = model.text(2)
        self.notes = {m.text(1): m.text(2) for m in model.messages(14)}
        graph = Message(model.one(7))
        self.arrays = {m.text(8): tensor(m) for m in graph.messages(5)}
        self.nodes = graph.messages(1)
        self.inputs = [self.value(m) for m in graph.messages(11)]
        self.outputs = [self.value(m) for m in graph.messages(12)]

    @staticmethod
    def value(m):
        """(name, type, dims), "N" where any number is meant."""
        kind = Message(Message(m.one(2)).one(1))
        shape = Message(kind.one(2))
        return (m.text(1), TYPES[kind.one(1)],
                [d.one(1) if d.all(1) else d.text(2) for d in
                 shape.messages(1)])

    def ops(self):
        return [node.text(4) for node in self.nodes]

    def run(self, x):
        (name, kind, dims), = self.inputs
        assert x.dtype == kind and len(x.shape) == len(dims)
        assert all(d in ("N", n) for d, n in zip(dims, x.shape))
        values = {**self.arrays, name: x}
        for node in self.nodes:
            op = node.text(4)
            inputs = [values[i] for i in node.texts(1)]
            given = {m.text(1): attribute(m) for m in node.messages(5)}
            out, = node.texts(2)
            assert out not in values, f"{out} twice"
            values[out] = OPERATORS[op](*inputs, **given)
        for name, kind, dims in self.outputs:
            got = values[name]
            assert got.dtype == kind and len(got.shape) == len(dims), name
            assert all(d in ("N", n) for d, n in zip(dims, got.shape)), name
        return {name: values[name] for name, _, _ in self.outputs}


def windows(x, kernel_shape, strides, pads, fill):
    """[N][C][rows][columns][kernel rows][kernel columns]."""
    assert pads[0] == pads[2] and pads[1] == pads[3]
    x = numpy.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]),
                      (pads[1], pads[3])), constant_values=fill)
    view = numpy.lib.stride_tricks.sliding_window_view(
        x, tuple(kernel_shape), axis=(2, 3))
    return view[:, :, ::strides[0], ::strides[1]]


def conv(x, weight, bias, kernel_shape, strides, pads):
    assert list(weight.shape[2:]) == kernel_shape
    view = windows(x, kernel_shape, strides, pads, 0)
    out = numpy.einsum("nchwkl,ockl->nohw", view, weight, optimize=True)
    return (out + bias[:, None, None]).astype(x.dtype)


def max_pool(x, kernel_shape, strides, pads):
    return windows(x, kernel_shape, strides, pads, -math.inf).max((4, 5))


def average_pool(x, kernel_shape, strides, pads):
    view = windows(x, kernel_shape, strides, pads, 0)
    inside = windows(numpy.ones_like(x), kernel_shape, strides, pads, 0)
    return (view.sum((4, 5)) / inside.sum((4, 5))).astype(x.dtype)


def batch_norm(x, scale, shift, mean, variance, epsilon):
    scale, shift, mean, variance = (
        v[:, None, None] for v in (scale, shift, mean, variance))
    return (scale * (x - mean) / numpy.sqrt(variance + epsilon)
            + shift).astype(x.dtype)


def softmax(x, axis):
    e = numpy.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


OPERATORS = {
    "Cast": lambda x, to: x.astype(TYPES[to]),
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "Flatten": lambda x: x.reshape(len(x), -1),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Gemm": lambda a, b, c, transB: a @ (b.T if transB else b) + c,
    "Conv": conv,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Relu": lambda x: numpy.maximum(x, 0),
    "Tanh": numpy.tanh,
    "Softmax": softmax,
    "ArgMax": lambda x, axis, keepdims: x.argmax(axis, keepdims=keepdims),
}
