// Door: the manifest's one way to files. Parsing asks it for the few files whose content becomes part of a job; tests hand in
// a pretend one, cli/disk.ts is the real one.

type Look =
  | { readonly kind: 'file'; readonly bytes: number; readonly isExecutable: boolean }
  | { readonly kind: 'folder'; readonly entries: readonly string[] }
  /** A pipe or a device: it can be read, and its length is not known before. */
  | { readonly kind: 'stream' }
  | { readonly kind: 'absent' }
  /** There, or perhaps there, and out of reach: the reason is one phrase. */
  | { readonly kind: 'unreadable'; readonly detail: string };

export interface FileDoor {
  /** Looks at an absolute path; follows links. Never throws. */
  look(path: string): Look;
  /** The first bytes of a file, `most + 1` at most, so that a longer one is noticed. Undefined with a reason when it cannot be read. */
  read(path: string, most: number): { readonly bytes: Uint8Array } | { readonly detail: string };
}

/** A whole small text file, or one phrase that says why not, after "the file ...". */
export function readText(
  door: FileDoor,
  path: string,
  most: number,
): { readonly text: string } | { readonly why: string } {
  const look = door.look(path);
  switch (look.kind) {
    case 'absent':
      return { why: 'does not exist' };
    case 'folder':
      return { why: 'is a folder' };
    case 'unreadable':
      return { why: `cannot be read: ${look.detail}` };
    case 'file':
      if (look.bytes > most) return { why: tooLarge(look.bytes, most) };
      break;
    case 'stream':
      break;
  }
  const read = door.read(path, most);
  if ('detail' in read) return { why: `cannot be read: ${read.detail}` };
  if (read.bytes.length > most) return { why: tooLarge(null, most) };
  if (read.bytes.includes(0)) return { why: 'is binary, not text' };
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(read.bytes) };
  } catch {
    return { why: 'is not text in UTF-8' };
  }
}

function tooLarge(bytes: number | null, most: number): string {
  return `is too large${bytes === null ? '' : ` (${binarySizeText(bytes)})`}; the limit is ${binarySizeText(most)}`;
}

/** `512 KiB`, `9.5 MiB`, in powers of two. */
export function binarySizeText(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB'];
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${Number.isInteger(size) ? size : size.toFixed(1)} ${units[unit]}`;
}
