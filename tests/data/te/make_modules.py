#!/usr/bin/env python3
"""Turns Transformer Engine's recorded modules (section f, a NumPy archive) into safetensors: uint16 arrays are BF16 bit patterns.

usage: make_modules.py f_modules.npz f_modules.safetensors      (no NumPy needed)
       make_modules.py f_modules.npz f_block.safetensors block  (the modules under block scaling alone)
"""
import ast
import json
import struct
import sys
import zipfile

KINDS = {"<u2": ("BF16", 2), "<f4": ("F32", 4)}


def read_npy(data: bytes):
    assert data[:6] == b"\x93NUMPY"
    size, start = (struct.unpack("<H", data[8:10])[0], 10) if data[6] == 1 else (struct.unpack("<I", data[8:12])[0], 12)
    header = ast.literal_eval(data[start : start + size].decode("latin1"))
    assert not header["fortran_order"]
    return header["descr"], list(header["shape"]), data[start + size :]


def main() -> int:
    header, blobs, offset = {}, [], 0
    with zipfile.ZipFile(sys.argv[1]) as archive:
        for entry in sorted(archive.namelist()):
            name = entry[: -len(".npy")]
            if (".block." in name) != (len(sys.argv) > 3):
                continue
            descr, shape, blob = read_npy(archive.read(entry))
            dtype, size = KINDS[descr]
            count = 1
            for extent in shape:
                count *= extent
            assert len(blob) == count * size
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(blob)]}
            blobs.append(blob)
            offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[2], "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
