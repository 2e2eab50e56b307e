// Send: copies a frozen working directory to a worker. The worker lists the files that it has; the difference travels
// as one packed archive, in pieces with positions, so that a dropped connection costs one piece. A setup step
// (setup/files.ts) then unpacks it. Paths are in latin1, as in app/tree.ts.

import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { BlobError, messageOf } from '../../app/errors.ts';
import { createLimiter } from '../../app/concurrency.ts';
import { foldersOf, isLink, type TreeEntry } from '../../app/tree.ts';
import type { WorkdirTree } from '../../app/workdir.ts';
import { makeFolder } from '../../files/files.ts';
import { minute, second } from '../../core/model/time.ts';
import { tryFunctions } from '../run-folder.ts';
import type { RunRequest, RunResult } from '../transport.ts';
import { tarOf } from './tar.ts';

/** Larger pieces are faster on a distant connection, but several copies are in memory while they travel. */
const pieceBytes = 2 * 1024 * 1024;
const maxSending = 6;
const pieceTimeout = 2 * minute;
const listTimeout = 60 * second;
const maxListBytes = 64 * 1024 * 1024;

/** `sent`: the worker has everything. After `failed` it may have a part. */
type SendResult = { readonly kind: 'sent' } | { readonly kind: 'failed'; readonly reason: string };

interface Packed {
  readonly archive: string;
  readonly remove: string;
  readonly names: string;
}

/** Limits the number of concurrent transfers of a backend. */
export function createWorkdirSender() {
  const gate = createLimiter(maxSending);
  /** By content; each archive is removed when its last user has finished. */
  const packing = new Map<
    string,
    { users: number; readonly folder: Promise<string>; readonly packed: Promise<Packed> }
  >();

  async function withPacked<T>(tree: WorkdirTree, there: Listing, use: (packed: Packed) => Promise<T>) {
    const { send, remove } = difference(
      tree.entries.map((entry) => ({ path: entry.path, fingerprint: fingerprintOf(entry) })),
      there,
    );
    const key = createHash('sha256')
      .update(JSON.stringify([tree.key, send, remove]))
      .digest('hex');
    let one = packing.get(key);
    if (one === undefined) {
      makeFolder(tree.folder);
      const temporary = mkdtemp(join(tree.folder, '.sending.'));
      one = { users: 0, folder: temporary, packed: temporary.then((path) => pack(path, tree, send, remove)) };
      packing.set(key, one);
    }
    one.users += 1;
    try {
      return await use(await one.packed);
    } finally {
      one.users -= 1;
      if (one.users === 0) {
        packing.delete(key);
        await one.folder.then((path) => rm(path, { recursive: true, force: true })).catch(() => undefined);
      }
    }
  }

  return {
    /** Sends the files that `root` (quoted for the shell) lacks. Arrived pieces are not sent again. Throws BlobError. */
    async send(
      run: (request: RunRequest) => Promise<RunResult>,
      root: string,
      open: () => Promise<WorkdirTree | null>,
    ): Promise<SendResult> {
      try {
        const tree = await open();
        if (tree === null) return { kind: 'failed', reason: 'its files on this machine are missing' };
        const answer = await run({
          script: listScript(`${root}/workdir`, `${root}/workdir.sent`),
          timeoutMs: listTimeout,
          maxOutputBytes: maxListBytes,
        });
        if (answer.kind === 'no_answer') return { kind: 'failed', reason: answer.reason };
        const there = parseListing(answer.stdout);
        if (there === undefined) return { kind: 'failed', reason: 'the worker did not list its files' };
        return await gate(() =>
          withPacked(tree, there, async (packed) => {
            for (const [name, file] of [
              ['workdir.remove', packed.remove],
              ['workdir.names', packed.names],
              ['workdir.files', packed.archive],
            ] as const) {
              const reason = await sendFile(run, root, name, file);
              if (reason !== undefined) return { kind: 'failed' as const, reason };
            }
            return { kind: 'sent' as const };
          }),
        );
      } catch (error) {
        if (error instanceof BlobError) throw error;
        return { kind: 'failed', reason: messageOf(error) };
      }
    },
  };
}

async function pack(
  folder: string,
  { entries, read }: WorkdirTree,
  send: readonly string[],
  remove: readonly string[],
): Promise<Packed> {
  const packed = { archive: join(folder, 'files'), remove: join(folder, 'remove'), names: join(folder, 'names') };
  await writeFile(packed.remove, joinPaths(remove));
  await writeFile(packed.names, joinPaths(entries.map(({ path }) => path)));
  const sent = new Set(send);
  const archive = tarOf(
    entries.filter(({ path }) => sent.has(path)),
    read,
  );
  await pipeline(Readable.from(archive), createGzip({ level: 1 }), createWriteStream(packed.archive));
  return packed;
}

/** Paths in the form that xargs takes: bytes, each ended by a NUL. */
function joinPaths(paths: readonly string[]): Uint8Array {
  return Buffer.from(paths.map((path) => `${path}\0`).join(''), 'latin1');
}

/** Returns the reason for a failure. */
async function sendFile(
  run: (request: RunRequest) => Promise<RunResult>,
  root: string,
  name: string,
  path: string,
): Promise<string | undefined> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const hash = createHash('sha256');
    for await (const chunk of file.createReadStream({ start: 0, autoClose: false })) hash.update(chunk as Buffer);
    const digest = hash.digest('hex');
    // The worker reports its position, so that a piece whose answer was lost is not written twice.
    let at = 0;
    for (let turns = 0; ; turns += 1) {
      if (turns > 2 * (size / pieceBytes + 2)) return 'another process is writing to the same file on the worker';
      const piece = Buffer.alloc(Math.min(pieceBytes, size - at));
      await file.read(piece, 0, piece.length, at);
      const result = await run({
        script: pieceScript(root, name, digest, { size, at, piece }),
        timeoutMs: pieceTimeout,
        maxOutputBytes: 10_000,
      });
      if (result.kind === 'no_answer') return result.reason;
      const answer = new TextDecoder().decode(result.stdout).trim();
      if (answer === 'whole') return undefined;
      const has = /^has (\d+)$/u.exec(answer)?.[1];
      if (has === undefined) return answer === '' ? new TextDecoder().decode(result.stderr).trim() : answer;
      at = Math.min(Number(has), size);
    }
  } finally {
    await file.close();
  }
}

interface Piece {
  /** Of the whole file. */
  readonly size: number;
  readonly at: number;
  readonly piece: Uint8Array;
}

/** Prints `whole` when the file is complete and renamed, `has <bytes>` when more is to come, or an error. */
function pieceScript(root: string, name: string, digest: string, { size, at, piece }: Piece): string {
  return `
umask 077
${tryFunctions}fail() { echo "$1"; exit 0; }
root=${root}
part=$root/${name}.${digest.slice(0, 16)}
try mkdir -p "$root" || fail "cannot create the folder $root$error"
[ -f "$part" ] || try touch "$part" || fail "cannot write to $root$error"
has=$(($(wc -c <"$part")))
[ $has -eq ${at} ] || { echo "has $has"; [ $has -le ${size} ] || rm -f "$part"; exit 0; }
${piece.length === 0 ? '' : appendText(piece)}has=$(($(wc -c <"$part")))
[ $has -eq ${size} ] || { echo "has $has"; exit 0; }
sum=$(sha256sum <"$part") || fail 'the host has no sha256sum'
if [ "\${sum%% *}" = ${digest} ]; then mv "$part" "$root/${name}" && echo whole
else rm -f "$part"; echo 'has 0'
fi
`;
}

/** Bytes travel in base64, so that no shell interprets them. */
function appendText(piece: Uint8Array): string {
  const lines = Buffer.from(piece)
    .toString('base64')
    .replaceAll(/.{1,4000}/gu, '$&\n');
  return `try append "$part" <<'END_OF_PIECE' || fail "cannot write to $root$error"\n${lines}END_OF_PIECE\n`;
}

export interface Entry {
  readonly path: string;
  /** Equal fingerprints mean equal files. As for rsync: the mode, the length and the second of the last change. */
  readonly fingerprint: string;
}

export interface Listing {
  readonly entries: readonly Entry[];
  readonly sent: readonly string[];
}

export interface Difference {
  readonly send: readonly string[];
  /** Removed before anything is written, with everything below them. */
  readonly remove: readonly string[];
}

/**
 * Prints six fields per entry, each ended by a NUL. A host whose find lacks -printf lists nothing, and gets all files.
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

/** As `listScript` prints it. */
function fingerprintOf(entry: TreeEntry): string {
  if (isLink(entry)) return `l ${entry.target}`;
  return `f ${entry.mode.toString(8)} ${entry.size} ${entry.changedAtSeconds}`;
}

export function parseListing(bytes: Uint8Array): Listing | undefined {
  const fields = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1').split('\0');
  if (fields.at(-1) !== '' || fields.at(-2) !== 'end') return undefined;
  const entries: Entry[] = [];
  let at = 0;
  for (; fields[at] !== 'sent'; at += 6) {
    const [type, mode, size, changed, target, path] = fields.slice(at, at + 6);
    if (path === undefined || type === undefined) return undefined;
    // The mode and the age of a symbolic link mean nothing.
    const fingerprint = type === 'l' ? `l ${target}` : `${type} ${mode} ${size} ${changed}`;
    entries.push({ path, fingerprint });
  }
  return { entries, sent: fields.slice(at + 1, -2) };
}

/** A program's own files stay. Files missing in this copy and obstacles (a file at a folder's path) are removed. */
export function difference(wanted: readonly Entry[], there: Listing): Difference {
  const has = new Map(there.entries.map(({ path, fingerprint }) => [path, fingerprint]));
  const folders = new Set<string>();
  for (const { path } of wanted) for (const folder of foldersOf(path)) folders.add(folder);
  const foldersThere = new Set(there.entries.flatMap(({ path }) => foldersOf(path)));
  const names = new Set(wanted.map(({ path }) => path));
  const remove = new Set<string>();
  for (const path of there.sent) if (!names.has(path) && has.has(path)) remove.add(path);
  for (const folder of folders) if (has.has(folder)) remove.add(folder);
  for (const path of names) if (foldersThere.has(path)) remove.add(path);
  const send = wanted.filter(({ path, fingerprint }) => has.get(path) !== fingerprint).map(({ path }) => path);
  return { send, remove: [...remove] };
}
