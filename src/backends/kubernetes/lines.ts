// Lines: a reply that comes in pieces, as whole lines. Bytes are not looked at otherwise.

/** Each line without its end; the last one too where it has no end. */
export async function* linesOf(body: AsyncIterable<Uint8Array>): AsyncIterable<Buffer> {
  let rest: Buffer[] = [];
  for await (const piece of body) {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    let from = 0;
    for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, from)) {
      const part = bytes.subarray(from, end);
      yield rest.length === 0 ? part : Buffer.concat([...rest, part]);
      rest = [];
      from = end + 1;
    }
    if (from < bytes.length) rest.push(bytes.subarray(from));
  }
  if (rest.length > 0) yield Buffer.concat(rest);
}

const lineEnd = 0x0a;
