// Lines: a reply that comes in pieces, as whole lines. Bytes are not looked at otherwise.

import { NoReply } from '../../http/reply.ts';

/** A line of a watch is one object, which etcd keeps below 1.5 MiB. */
const lineMost = 16 * 1024 * 1024;

/** Each line without its end; the last one too where it has no end. Throws NoReply for a line that does not end. */
export async function* linesOf(body: AsyncIterable<Uint8Array>, most = lineMost): AsyncIterable<Buffer> {
  let rest: Buffer[] = [];
  let size = 0;
  for await (const piece of body) {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    let from = 0;
    for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, from)) {
      const part = bytes.subarray(from, end);
      yield rest.length === 0 ? part : Buffer.concat([...rest, part]);
      rest = [];
      size = 0;
      from = end + 1;
    }
    if (from === bytes.length) continue;
    rest.push(bytes.subarray(from));
    size += bytes.length - from;
    if (size > most) throw new NoReply(`a line of its answer is longer than ${most / 1024 / 1024} MiB`, true, null);
  }
  if (rest.length > 0) yield Buffer.concat(rest);
}

const lineEnd = 0x0a;
