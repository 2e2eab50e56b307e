// List: what stands in a working directory, there or here, and what has to be done to one so that it becomes the other.
//
// Names of files are bytes, not text. Here they are strings of one character a byte (latin1), so that a name which is no
// UTF-8 goes through unharmed.

/** One thing in a working directory that is no folder. */
export interface Entry {
  /** Below the directory, one character a byte. */
  readonly path: string;
  /** Two are the same when this is: as for rsync, the mode, the length and the second of the last change. */
  readonly sameness: string;
}

/** A working directory as it stands somewhere. */
export interface Listing {
  readonly entries: readonly Entry[];
  /** The files of an earlier copy; what a program has made there since is not among them. */
  readonly sent: readonly string[];
}

/** The steps that make one directory the other: paths, one character a byte. */
export interface Difference {
  readonly send: readonly string[];
  /** Before anything is written, with all that is below them. */
  readonly remove: readonly string[];
}

/**
 * Prints what stands in that folder and what was sent to it, six words for each thing, every word ended by a NUL. Both are
 * words of a shell. A host whose find cannot print so tells nothing, and gets all of it.
 */
export function listScript(folder: string, sent: string): string {
  return `if [ -d ${folder} ]; then
  (cd ${folder} && LC_ALL=C find . -mindepth 1 ! -type d -printf '%y\\0%m\\0%s\\0%Ts\\0%l\\0%P\\0' 2>/dev/null)
fi
printf 'sent\\0'
[ ! -f ${sent} ] || cat ${sent}
printf 'end\\0'
`;
}

/** Reads what the script has printed. Undefined when it was cut. */
export function parseListing(bytes: Uint8Array): Listing | undefined {
  const words = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1').split('\0');
  if (words.at(-1) !== '' || words.at(-2) !== 'end') return undefined;
  const entries: Entry[] = [];
  let at = 0;
  for (; words[at] !== 'sent'; at += 6) {
    const [type, mode, size, changed, target, path] = words.slice(at, at + 6);
    if (path === undefined || type === undefined) return undefined;
    // The mode and the age of a symbolic link mean nothing.
    const sameness = type === 'l' ? `l ${target}` : `${type} ${mode} ${size} ${changed}`;
    entries.push({ path, sameness });
  }
  return { entries, sent: words.slice(at + 1, -2) };
}

/**
 * The steps to be done. What a program has made there stays; what an earlier copy brought and this one does not have goes, as
 * does what stands in the way (a file where there is to be a folder, and the other way round).
 */
export function difference(wanted: readonly Entry[], there: Listing): Difference {
  const has = new Map(there.entries.map(({ path, sameness }) => [path, sameness]));
  const folders = new Set<string>();
  for (const { path } of wanted) for (const folder of foldersOf(path)) folders.add(folder);
  const foldersThere = new Set(there.entries.flatMap(({ path }) => foldersOf(path)));
  const names = new Set(wanted.map(({ path }) => path));
  const remove = new Set<string>();
  for (const path of there.sent) if (!names.has(path) && has.has(path)) remove.add(path);
  for (const folder of folders) if (has.has(folder)) remove.add(folder);
  for (const path of names) if (foldersThere.has(path)) remove.add(path);
  const send = wanted.filter(({ path, sameness }) => has.get(path) !== sameness).map(({ path }) => path);
  return { send, remove: [...remove] };
}

/** `a/b/c` is in `a` and `a/b`. */
function foldersOf(path: string): readonly string[] {
  const folders: string[] = [];
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) folders.push(path.slice(0, at));
  return folders;
}

/** Paths as tar and xargs take them: bytes, each ended by a NUL. */
export function pathBytes(paths: readonly string[]): Uint8Array {
  return Buffer.from(paths.map((path) => `${path}\0`).join(''), 'latin1');
}
