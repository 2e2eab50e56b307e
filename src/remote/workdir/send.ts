// Send: how a frozen working directory comes to a worker. The worker is asked what it has; what differs travels as one
// packed archive, in pieces, each of which says where it belongs, so that a line which drops costs one piece. A setup step
// (setup/workdir.ts) then puts it into its place, as any step is gone through.
//
// Names of files are bytes, not text. Here they are strings of one character a byte (latin1), so that a name which is no
// UTF-8 goes through unharmed.

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { textOf } from '../../app/errors.ts';
import { createGate } from '../../app/fan-out.ts';
import { minute, second } from '../../core/time.ts';
import { runProcess } from '../process.ts';
import type { RunRequest, RunResult } from '../transport.ts';
import { pathBytes, tarOfPaths } from './freeze.ts';

/** A piece of an archive: larger ones are quicker on a far line, and are held several times over while they travel. */
const pieceBytes = 2 * 1024 * 1024;
const sendingMost = 6;
const pieceTimeout = 2 * minute;
const listTimeout = 60 * second;
const listMost = 64 * 1024 * 1024;

/** It is there, or why not. `sent`: something may have reached the worker. */
type Sent = { readonly kind: 'sent' } | { readonly kind: 'failed'; readonly reason: string };

interface Packed {
  readonly archive: string;
  readonly remove: string;
  readonly names: string;
}

/** One for all workers of a backend: it sees to it that not too many are sent to at once. */
export function createWorkdirSender() {
  const gate = createGate(sendingMost);
  /** By what they hold; each is removed when its last user has it. */
  const packing = new Map<
    string,
    { users: number; readonly place: Promise<string>; readonly packed: Promise<Packed> }
  >();

  async function withPacked<T>(folder: string, wanted: Listing, there: Listing, use: (packed: Packed) => Promise<T>) {
    const { send, remove } = difference(wanted.entries, there);
    const names = wanted.entries.map(({ path }) => path);
    const key = createHash('sha256')
      .update(JSON.stringify([folder, send, remove]))
      .digest('hex');
    let one = packing.get(key);
    if (one === undefined) {
      const place = mkdtemp(join(folder, '.sending.'));
      one = { users: 0, place, packed: place.then((path) => pack(path, filesOf(folder), { send, remove, names })) };
      packing.set(key, one);
    }
    one.users += 1;
    try {
      return await use(await one.packed);
    } finally {
      one.users -= 1;
      if (one.users === 0) {
        packing.delete(key);
        await one.place.then((path) => rm(path, { recursive: true, force: true })).catch(() => undefined);
      }
    }
  }

  return {
    /**
     * Brings beside the working directory of `root` (a word of a shell) what it lacks of the copy in `folder`, where archives
     * lie too while they are sent. Safe to repeat: what has arrived is not sent again.
     */
    async send(run: (request: RunRequest) => Promise<RunResult>, root: string, folder: string): Promise<Sent> {
      try {
        const wanted = await listHere(filesOf(folder));
        if (wanted === undefined) return { kind: 'failed', reason: `the job's copy of it, ${folder}, cannot be read` };
        const answer = await run({
          script: listScript(`${root}/workdir`, `${root}/workdir.sent`),
          timeoutMs: listTimeout,
          outputMost: listMost,
        });
        if (answer.kind === 'no_answer') return { kind: 'failed', reason: answer.reason };
        const there = parseListing(answer.stdout);
        if (there === undefined) return { kind: 'failed', reason: 'the worker did not say what it has of it' };
        return await gate(() =>
          withPacked(folder, wanted, there, async (packed) => {
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
        return { kind: 'failed', reason: textOf(error) };
      }
    },
  };
}

function filesOf(folder: string): string {
  return join(folder, 'files');
}

/** The files of the frozen copy, by the same words as on a worker; undefined when it is not there. */
async function listHere(frozen: string): Promise<Listing | undefined> {
  const result = await runProcess({
    argv: ['sh', '-c', `cd "$1" || exit 1\n${listScript('.', '/dev/null')}`, 'sh', frozen],
    timeoutMs: listTimeout,
    outputMost: listMost,
  });
  return result.exitCode === 0 ? parseListing(result.stdout) : undefined;
}

async function pack(
  folder: string,
  frozen: string,
  lists: { readonly send: readonly string[]; readonly remove: readonly string[]; readonly names: readonly string[] },
): Promise<Packed> {
  const packed = { archive: join(folder, 'files'), remove: join(folder, 'remove'), names: join(folder, 'names') };
  await writeFile(packed.remove, pathBytes(lists.remove));
  await writeFile(packed.names, pathBytes(lists.names));
  const tar = spawn('tar', ['-c', '-f', '-', '-C', frozen, ...tarOfPaths], {
    stdio: 'pipe',
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' },
  });
  const words: string[] = [];
  tar.stderr.on('data', (chunk: Buffer) => words.length < 20 && words.push(chunk.toString()));
  tar.stdin.on('error', () => undefined);
  tar.stdin.end(pathBytes(lists.send));
  const closed = once(tar, 'close') as Promise<[number | null]>;
  await pipeline(tar.stdout, createGzip({ level: 1 }), createWriteStream(packed.archive, { mode: 0o600 }));
  const [code] = await closed;
  if (code !== 0) throw new Error(`it cannot be packed: ${words.join('').trim() || `tar ended with ${String(code)}`}`);
  return packed;
}

/** Sends one file to `<root>/<name>`; answers why not, if so. */
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
    // A piece that arrived although its answer was lost is not written twice: the worker says how far it has come.
    let at = 0;
    for (let turns = 0; ; turns += 1) {
      if (turns > 2 * (size / pieceBytes + 2)) return 'somebody else is writing to the same place there';
      const piece = Buffer.alloc(Math.min(pieceBytes, size - at));
      await file.read(piece, 0, piece.length, at);
      const result = await run({
        script: pieceScript(root, { name, digest, size, at, piece }),
        timeoutMs: pieceTimeout,
        outputMost: 10_000,
      });
      if (result.kind === 'no_answer') return result.reason;
      const said = new TextDecoder().decode(result.stdout).trim();
      if (said === 'whole') return undefined;
      const has = /^has (\d+)$/u.exec(said)?.[1];
      if (has === undefined) return said === '' ? new TextDecoder().decode(result.stderr).trim() : said;
      at = Math.min(Number(has), size);
    }
  } finally {
    await file.close();
  }
}

/** Prints `whole` when the file is complete and in its place, `has <bytes>` when more is to come, or what is wrong. */
function pieceScript(
  root: string,
  {
    name,
    digest,
    size,
    at,
    piece,
  }: {
    readonly name: string;
    readonly digest: string;
    readonly size: number;
    readonly at: number;
    readonly piece: Uint8Array;
  },
): string {
  return `
umask 077
fail() { echo "$1"; exit 0; }
root=${root}
part=$root/${name}.${digest.slice(0, 16)}
mkdir -p "$root" 2>/dev/null || fail "cannot make the folder $root"
[ -f "$part" ] || printf '' 2>/dev/null >"$part" || fail "cannot write below $root"
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

/** Adds bytes to the file. They travel in base64, so that no shell reads them. */
function appendText(piece: Uint8Array): string {
  const lines = Buffer.from(piece)
    .toString('base64')
    .replaceAll(/.{1,4000}/gu, '$&\n');
  return `base64 -d 2>/dev/null >>"$part" <<'END_OF_PIECE' || fail "cannot write below $root"\n${lines}END_OF_PIECE\n`;
}

export interface Entry {
  readonly path: string;
  /** Two are the same when this is: as for rsync, the mode, the length and the second of the last change. */
  readonly sameness: string;
}

export interface Listing {
  readonly entries: readonly Entry[];
  /** The files of an earlier copy; what a program has made there since is not among them. */
  readonly sent: readonly string[];
}

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

function foldersOf(path: string): readonly string[] {
  const folders: string[] = [];
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) folders.push(path.slice(0, at));
  return folders;
}
