/**
 * A batch job: a function runs for each of many items, on several cores. Here each item is a small picture that is
 * halved in size. The value of `each` is the result of the item; results keep the order of the items.
 *
 *   remuster run examples/resize.ts --cores 4 --set items=2000 --out results.json
 */
import { workflow } from 'remuster';

const size = 64;

/** Grey values that depend on the seed only. */
function picture(seed: number): Uint8Array {
  const pixels = new Uint8Array(size * size);
  for (let i = 0; i < pixels.length; i++) pixels[i] = (i * 31 + seed * 17) % 256;
  return pixels;
}

function halved(pixels: Uint8Array): Uint8Array {
  const half = size / 2;
  const small = new Uint8Array(half * half);
  for (let y = 0; y < half; y++) {
    for (let x = 0; x < half; x++) {
      const at = y * 2 * size + x * 2;
      const sum = [at, at + 1, at + size, at + size + 1].reduce((total, index) => total + (pixels[index] ?? 0), 0);
      small[y * half + x] = Math.round(sum / 4);
    }
  }
  return small;
}

export default workflow('resize', {
  cores: 2,
  items: 500,
  each: (item, ctx) => {
    const small = halved(picture(item));
    ctx.metrics.count('bytes', small.length);
    return { item, brightness: Math.round(small.reduce((sum, pixel) => sum + pixel, 0) / small.length) };
  },
});
