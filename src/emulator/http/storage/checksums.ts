// The checksums that Storage says of an object, and by which its clients notice a broken transfer.

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';

export interface Checksums {
  /** CRC-32C of the bytes, big-endian, in base64: https://cloud.google.com/storage/docs/data-validation */
  readonly crc32c: string;
  readonly md5Hash: string;
}

/** The polynomial of Castagnoli, its bits in reverse. Node's zlib has another. */
const polynomial = 0x82f63b78;

const table = new Uint32Array(256).map((_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit += 1) sum = (sum & 1) === 1 ? (sum >>> 1) ^ polynomial : sum >>> 1;
  return sum >>> 0;
});

/** Goes on from the sum of the bytes before; the first begins with 0. */
export function crc32c(bytes: Uint8Array, before = 0): number {
  let sum = ~before;
  for (const byte of bytes) sum = (sum >>> 8) ^ (table[(sum ^ byte) & 0xff] ?? 0);
  return ~sum >>> 0;
}

/** Of a whole file, read once. */
export async function checksumsOf(path: string): Promise<Checksums> {
  const md5 = createHash('md5');
  let sum = 0;
  for await (const chunk of createReadStream(path)) {
    md5.update(chunk as Buffer);
    sum = crc32c(chunk as Buffer, sum);
  }
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(sum);
  return { crc32c: bytes.toString('base64'), md5Hash: md5.digest('base64') };
}
