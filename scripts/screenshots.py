"""Draws screens (`*.cells`, one line a cell) as PNG. Lines and blocks are drawn as shapes, so that they join."""

import pathlib
import sys
import unicodedata

from PIL import Image, ImageDraw, ImageFont

FONTS = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono"
WIDE = ["/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc", "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"]
SIZE = 16
W, H = 10, 20
BASE = 4
GROUND, TEXT = (24, 26, 31), (208, 212, 220)
FIRST = [
    (48, 52, 61), (224, 108, 117), (152, 195, 121), (229, 192, 123),
    (97, 175, 239), (198, 120, 221), (86, 182, 194), (208, 212, 220),
    (92, 99, 112), (240, 135, 143), (178, 216, 150), (240, 210, 150),
    (130, 195, 250), (215, 150, 235), (120, 205, 215), (240, 242, 246),
]
LEVELS = [0, 95, 135, 175, 215, 255]


def colour(word, default):
    if word == "-":
        return default
    if word.startswith("#"):
        return tuple(int(word[i : i + 2], 16) for i in (1, 3, 5))
    index = int(word)
    if index < 16:
        return FIRST[index]
    if index < 232:
        index -= 16
        return LEVELS[index // 36], LEVELS[index // 6 % 6], LEVELS[index % 6]
    return (8 + 10 * (index - 232),) * 3


def mix(one, other, part):
    return tuple(round(a * part + b * (1 - part)) for a, b in zip(one, other))


def font(attrs):
    kind = {(0, 0): "", (1, 0): "-Bold", (0, 1): "-Oblique", (1, 1): "-BoldOblique"}
    path = FONTS + kind["b" in attrs, "i" in attrs] + ".ttf"
    return ImageFont.truetype(path, SIZE)


def arms(char):
    """Up, right, down, left of a light or heavy line; None if it is none."""
    name = unicodedata.name(char, "")
    if not name.startswith("BOX DRAWINGS ") or "DOUBLE" in name or "DASH" in name or "DIAGONAL" in name:
        return None
    name = name.removeprefix("BOX DRAWINGS ").replace("ARC ", "")
    sides = {"UP": [0], "RIGHT": [1], "DOWN": [2], "LEFT": [3], "VERTICAL": [0, 2], "HORIZONTAL": [1, 3]}
    found, weight, pending = [0] * 4, 0, []
    for word in name.split():
        if word in ("LIGHT", "HEAVY"):
            new = 1 if word == "LIGHT" else 2
            for side in pending:
                found[side] = new
            weight, last = new, word
            if pending:
                pending, weight = [], 0
        elif word in sides:
            if weight:
                for side in sides[word]:
                    found[side] = weight
            else:
                pending += sides[word]
    return found


def shape(draw, char, x, y, w, ink, ground):
    """Draws a line or a block; gives whether it was one."""
    lines = arms(char)
    if lines:
        cx, cy = x + w // 2 - 1, y + H // 2 - 1
        # A line is two pixels, a heavy one four.
        def half(weight):
            return 0 if weight == 1 else 1
        up, right, down, left = lines
        for weight, box in (
            (up, lambda h: (cx - h, y, cx + 1 + h, cy + 1)),
            (down, lambda h: (cx - h, cy, cx + 1 + h, y + H - 1)),
            (left, lambda h: (x, cy - h, cx + 1, cy + 1 + h)),
            (right, lambda h: (cx, cy - h, x + w - 1, cy + 1 + h)),
        ):
            if weight:
                draw.rectangle(box(half(weight)), fill=ink)
        return True
    code = ord(char)
    if 0x2581 <= code <= 0x2588:
        height = H * (code - 0x2580) // 8
        draw.rectangle((x, y + H - height, x + w - 1, y + H - 1), fill=ink)
        return True
    if 0x2589 <= code <= 0x258F:
        draw.rectangle((x, y, x + w * (0x2590 - code) // 8 - 1, y + H - 1), fill=ink)
        return True
    if code == 0x2580:
        draw.rectangle((x, y, x + w - 1, y + H // 2 - 1), fill=ink)
        return True
    if 0x2591 <= code <= 0x2593:
        draw.rectangle((x, y, x + w - 1, y + H - 1), fill=mix(ink, ground, (code - 0x2590) / 4))
        return True
    return False


def picture(path):
    lines = path.read_text().split("\n")
    _, rows, cols = lines[0].split(" ")
    image = Image.new("RGB", (int(cols) * W + 16, int(rows) * H + 16), GROUND)
    draw = ImageDraw.Draw(image)
    fonts = {}
    cursor = None
    wide = next((ImageFont.truetype(name, SIZE + 2) for name in WIDE if pathlib.Path(name).exists()), None)
    for line in lines[1:]:
        if line.startswith("cursor "):
            cursor = tuple(map(int, line.split(" ")[1:]))
            continue
        if not line:
            continue
        row, col, width, fg, bg, attrs, text = line.split(" ", 6)
        ink, ground = colour(fg, TEXT), colour(bg, GROUND)
        if "r" in attrs:
            ink, ground = ground, ink
        if "d" in attrs:
            ink = mix(ink, ground, 0.55)
        x, y, w = int(col) * W + 8, int(row) * H + 8, int(width) * W
        draw.rectangle((x, y, x + w - 1, y + H - 1), fill=ground)
        if len(text) == 1 and shape(draw, text, x, y, w, ink, ground):
            continue
        if text.strip():
            face = fonts.setdefault(attrs, font(attrs))
            if width == "2" and wide:
                face = wide
            draw.text((x, y + H - BASE), text, font=face, fill=ink, anchor="ls")
        if "u" in attrs:
            draw.line((x, y + H - 2, x + w - 1, y + H - 2), fill=ink)
        if "s" in attrs:
            draw.line((x, y + H // 2, x + w - 1, y + H // 2), fill=ink)
    if cursor:
        row, col = cursor
        x, y = col * W + 8, row * H + 8
        part = image.crop((x, y, x + W, y + H))
        image.paste(part.point(lambda v: 255 - v), (x, y))
    return image


def main():
    cells, out = map(pathlib.Path, sys.argv[1:])
    for path in sorted(cells.glob("*.cells")):
        picture(path).quantize(96).save(out / (path.stem + ".png"), optimize=True)


main()
