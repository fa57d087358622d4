/** CRC-32 and CRC-32C, table driven. The only checksums of `src` outside `io/`. */

const crc32Table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb8_8320 : value >>> 1;
  return value;
});

/** CRC-32 as in zip and gzip. `before` is the checksum of the preceding bytes. */
export function crc32(bytes: Uint8Array, before = 0): number {
  let crc = ~before;
  for (let i = 0; i < bytes.length; i++)
    crc = (crc32Table[(crc ^ (bytes[i] as number)) & 0xff] as number) ^ (crc >>> 8);
  return ~crc >>> 0;
}

const castagnoli = 0x82f6_3b78;
/** The table of one byte, then those of a byte that is followed by one, two and three others (slicing by four). */
const tables = new Int32Array(4 * 256);
for (let byte = 0; byte < 256; byte++) {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ castagnoli : value >>> 1;
  tables[byte] = value;
}
for (let at = 256; at < tables.length; at++) {
  const before = tables[at - 256] as number;
  tables[at] = (before >>> 8) ^ (tables[before & 0xff] as number);
}

/** CRC-32C (Castagnoli) of a range. */
export function crc32c(bytes: Uint8Array, start = 0, end: number = bytes.length): number {
  let crc = -1;
  let at = start;
  for (; at + 4 <= end; at += 4) {
    crc ^=
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24);
    crc =
      (tables[768 + (crc & 0xff)] as number) ^
      (tables[512 + ((crc >>> 8) & 0xff)] as number) ^
      (tables[256 + ((crc >>> 16) & 0xff)] as number) ^
      (tables[crc >>> 24] as number);
  }
  for (; at < end; at++) crc = (tables[(crc ^ (bytes[at] as number)) & 0xff] as number) ^ (crc >>> 8);
  return ~crc >>> 0;
}
