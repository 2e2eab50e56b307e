// Tar: an archive in the format of GNU tar, whose names may be any bytes of any length. The usual library (tar-stream) writes
// names as UTF-8 only.

import { isLink, nameOf, type TreeEntry, type TreeFile } from '../../app/tree.ts';

const blockBytes = 512;

/** Reads one piece of a file at a time. Throws if a file has another size than its entry. */
export async function* tarOf(
  entries: readonly TreeEntry[],
  read: (file: TreeFile) => AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  for (const entry of entries) {
    const target = isLink(entry) ? entry.target : '';
    if (entry.path.length >= nameBytes) yield longName('L', entry.path);
    if (target.length >= nameBytes) yield longName('K', target);
    if (isLink(entry)) {
      yield header({ name: entry.path, type: '2', mode: 0o777, size: 0, changedAtSeconds: 0, target });
      continue;
    }
    yield header({ ...entry, name: entry.path, type: '0', target });
    let bytes = 0;
    for await (const piece of read(entry)) {
      bytes += piece.length;
      yield piece;
    }
    if (bytes !== entry.size) throw new Error(`${nameOf(entry)} has ${bytes} bytes instead of ${entry.size}`);
    yield Buffer.alloc(padding(entry.size));
  }
  yield Buffer.alloc(2 * blockBytes);
}

const nameBytes = 100;

/** The full name or target of the next entry, whose header has only its beginning. */
function longName(type: 'L' | 'K', text: string): Uint8Array {
  const size = text.length + 1;
  const head = header({ name: '././@LongLink', type, mode: 0, size, changedAtSeconds: 0, target: '' });
  return Buffer.concat([head, Buffer.from(text, 'latin1'), Buffer.alloc(1 + padding(size))]);
}

function padding(size: number): number {
  return (blockBytes - (size % blockBytes)) % blockBytes;
}

function header(of: {
  readonly name: string;
  readonly type: string;
  readonly mode: number;
  readonly size: number;
  readonly changedAtSeconds: number;
  readonly target: string;
}): Buffer {
  const block = Buffer.alloc(blockBytes);
  const text = (value: string, at: number, length: number): void => void block.write(value, at, length, 'latin1');
  const octal = (value: number, at: number, length: number): void =>
    text(
      `${Math.max(0, value)
        .toString(8)
        .padStart(length - 1, '0')}\0`,
      at,
      length,
    );
  text(of.name, 0, nameBytes);
  octal(of.mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(of.size, 124, 12);
  octal(of.changedAtSeconds, 136, 12);
  // The sum counts its own field as spaces.
  text(' '.repeat(8), 148, 8);
  text(of.type, 156, 1);
  text(of.target, 157, nameBytes);
  text('ustar  \0', 257, 8);
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return block;
}
