#!/usr/bin/env python3
"""Reads a ring back from a device, or an image of one, without Forebay. Changes nothing; checks every checksum.
    read_ring.py DEVICE                 lists the rings
    read_ring.py DEVICE /ring > file    writes the elements that are whole, back to back, oldest first
    read_ring.py DEVICE /ring --list    one line an element: sequence, nanoseconds since 1970, bytes"""
import struct, sys; TABLE = list(range(256))
for _ in range(8): TABLE = [n >> 1 ^ (0x82F63B78 if n & 1 else 0) for n in TABLE]
def crc32c(data, crc=0xFFFFFFFF):
    for byte in data: crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF
class Postcard:  # each method reads one value and moves on
    def __init__(self, data): self.data, self.at = data, 0
    def byte(self): self.at += 1; return self.data[self.at - 1]
    def int(self):
        value, shift = 0, 0
        while (byte := self.byte()) > 127: value, shift = value | (byte & 127) << shift, shift + 7
        return value | byte << shift
    def ints(self, n): return [self.int() for _ in range(n)]
    def text(self): n = self.int(); self.at += n; return self.data[self.at - n:self.at].decode()
    def some(self, read): return read() if self.byte() else None
    def many(self, read): return [read() for _ in range(self.int())]
def read_catalog(device):  # superblock.md, checkpoint.md
    roots = []
    for which in 0, 1:
        device.seek(which << 16)
        magic, version, length, crc, body = struct.unpack("<8s3I65516s", root := device.read(1 << 16))
        if (magic, version) == (b"FOREBAY\0", 1) and crc32c(body[:length]) ^ crc32c(root[:16]) == crc:
            target, _, _, _, area, areas_at, *layout = (p := Postcard(body)).ints(10)
            roots.append((p.ints(3), which, target, areas_at + area * which, layout))
    for (_, length, crc), _, target, area_at, layout in sorted(roots, reverse=True):
        device.seek(area_at)
        p = Postcard(device.read(length))
        if crc32c(p.data) == crc:
            p.ints(4), p.many(lambda: p.int() and p.int())  # epoch, next ring, next pin, closed; who owns each group
            return target, layout, p.many(lambda: read_ring(p))
    sys.exit("not a target of format version 1, or no whole superblock and checkpoint is left")
def read_ring(p):  # what is not returned is passed over
    _, name, (*_, block, _, _) = p.int(), p.text(), p.ints(6)
    p.many(p.text), p.byte(), p.ints(2), p.int() and p.int(), p.many(p.text), p.int(), p.byte()
    groups, without_logs, segment = p.many(lambda: p.some(p.int)), p.byte(), p.int()
    slots, _, (walk, *_) = p.many(lambda: p.some(lambda: p.ints(22)[0])), p.many(p.int), p.ints(4)
    relatives, held = lambda: p.many(lambda: (p.text(), p.int())), lambda: p.many(lambda: p.ints(2))
    p.many(lambda: (p.int(), p.text(), p.ints(6), relatives(), held(), p.byte())), held(), p.ints(2)  # pins, writers, fence, begins
    origin, _ = p.ints(4)[:2], p.some(p.int)  # since, anew
    return origin, name, groups, without_logs, segment, block, slots, walk
NAMES = ("magic version head flags target ring segment slot index at durable epoch first base min max writer number "
         "total payload lengths times keys gaps entries payload_crc body_crc cuts").split()
def headers(data, *place):  # block.md: whole headers where they say they are, by segment
    found = {}
    for at in (at for at in range(0, len(data), 4096) if data.startswith(b"FBRBLOCK\1\0", at)):
        h = dict(zip(NAMES, struct.unpack_from("<8sHHI16sQQIIIIQQqqqQQ10I", data, at)))
        stamp = int.from_bytes(h["target"], "little"), h["ring"], h["slot"], h["at"]
        if stamp == (*place, at) and crc32c(data[at:at + 252]).to_bytes(4, "little") == data[at + 252:at + 256]:
            found.setdefault(h["segment"], []).append(h)
    return found
def trailer(data, *place):  # segment.md: epoch, blocks, how many of them were durable
    magic, version, length, crc = struct.unpack_from("<8s3I", end := data[-4096:])
    p = Postcard(end[20:20 + length])
    if (magic, version) == (b"FBRTRAIL", 1) and crc32c(p.data) ^ crc32c(end[:16]) == crc:
        epoch, blocks, durable = (fields := p.ints(28))[3], *fields[26:]
        return (epoch, blocks, durable) if (*fields[:3], fields[4]) == place else None
def chain(data, heads, blocks=1 << 32, durable=0):  # what follows a hole counts only if the hole had been durable
    index = epoch = end = 0
    for h in heads:
        at, body = h["at"], h["at"] + 256 + h["payload"]
        rest = data[body:body + h["lengths"] + h["times"] + h["keys"] + h["gaps"] + h["cuts"]]
        whole = crc32c(data[at + 256:body]) == h["payload_crc"] and crc32c(rest) == h["body_crc"]
        next_one = (at, h["index"]) == (end, index) or h["index"] >= index < max(h["durable"], durable)
        if whole and next_one and h["epoch"] >= epoch and h["index"] < blocks:
            index, epoch, end = h["index"] + 1, h["epoch"], at + h["total"]
            yield h, data[at + 256:body], zip(runs(rest[:h["lengths"]]), runs(rest[h["lengths"]:][:h["times"]]))
def runs(tokens, value=0):
    p = Postcard(tokens)
    while p.at < len(tokens):
        token = p.int()
        value, count = (value, token >> 1) if token & 1 else (token >> 1, 1)
        yield from [value] * count
def elements(blocks, before=None, parts=None):
    for h, payload, directory in blocks:
        at, time, follows = 0, h["base"], before == (h["writer"], h["number"] - 1)
        for i, (length, delta) in enumerate(directory):
            within, goes_on = i == 0 and h["flags"] & 1, i == h["entries"] - 1 and h["flags"] & 2
            parts = [] if not within else parts if follows and not h["flags"] & 4 else None  # 4: it is torn
            if parts is not None: parts.append(payload[at:at + length])
            at, time = at + length, time + (delta >> 1 ^ -(delta & 1))
            if parts is not None and not goes_on: yield h["first"] + i, time, b"".join(parts)
        before = h["writer"], h["number"]
def main(path, wanted=None, how=None):
    _, (groups_at, group, log, _), rings = read_catalog(device := open(path, "rb"))
    for (target, ring), name, groups, without_logs, segment, block, slots, walk in rings:  # as which it was made
        n = (group - (0 if without_logs else log)) // segment  # segments in a group
        place = {i * n + k: groups_at + g * group + k * segment
                 for i, g in enumerate(groups) if g is not None for k in range(n)}
        read = lambda slot: (device.seek(place[slot]), device.read(segment))[1]
        def blocks(last=walk - 1, epoch=0, path=[], old=[], found=[], proven=False):
            found_in = lambda slot: headers(read(slot), target, ring, slot).items()
            there = ((n, -h["epoch"], h["at"], slot) for slot in place for n, (h, *_) in found_in(slot))
            for sequence, older, at, slot in sorted(there):
                if sequence < walk and sequence == slots[slot]: old = old + [(slot, sequence)]
                # If not the next one, it is behind a hole in the walk; what a crash undid is of an older epoch.
                if sequence == last + 1 and -older >= epoch:
                    end = trailer(read(slot), target, ring, slot, sequence)
                    if not end and at > 2 * block: break
                    if end and end[0] < -older and end[1] != end[2]: end = None
                    path, last, epoch = path + [(slot, sequence, end)], sequence, end[0] if end else epoch
            for slot, sequence, end in reversed(path):  # what nothing behind it proves durable ends where its chain ends
                heads = headers(data := read(slot), target, ring, slot)[sequence]
                got = list(chain(data, heads, *(end[1], end[1] if proven else end[2]) if end else ()))
                whole = end and (end[1] == end[2] or got and got[-1][0]["index"] + 1 == end[1])
                found, last = [got] + (found if whole or proven else []), last if whole or proven else sequence
                proven = proven or end and end[2] > 0 or any(h["durable"] for h, *_ in got)
            for slot, sequence in old:  # all of it was durable; a slot where the segment behind the end began is erased
                by_segment = headers(data := read(slot), target, ring, slot)
                begun = trailer(data, target, ring, slot, last + 1) or by_segment.get(last + 1, [{"at": 1}])[0]["at"] == 0
                if not begun and slot not in (slot for slot, *_ in path):
                    yield from chain(data, by_segment[sequence], durable=1 << 32)
            for got in found: yield from got
        if wanted is None: print(f"{name}: {len(place)} segments of {segment} bytes")
        for sequence, time, data in elements(blocks()) if name == wanted else ():
            print(sequence, time, len(data)) if how else sys.stdout.buffer.write(data)
main(*sys.argv[1:])

