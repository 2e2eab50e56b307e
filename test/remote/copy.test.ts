// The target of a copy from a worker on this machine. test/real/exec.test.ts tests its completeness.

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { test, type TestContext } from 'node:test';
import type { CopyEnd, Session } from '../../src/app/worker-access.ts';
import { copyFromRemote, copyToRemote, type StartSession } from '../../src/remote/copy.ts';
import { temporaryFolder } from '../support/folder.ts';

/** A worker that does not answer: what is asked of this machine comes before. */
const silent = (): Session => ({
  write: () => Promise.resolve(),
  end: () => undefined,
  resize: () => undefined,
  stop: () => undefined,
  ended: Promise.resolve({ kind: 'unreachable', reason: 'silent', mayHaveRun: false }),
});

function fetchTo(to: string, cwd: string): Promise<CopyEnd> {
  const signal = new AbortController().signal;
  return copyFromRemote(silent, { from: 'data', to, replace: false, onProgress: () => undefined, signal, cwd });
}

test('a folder that no file system will make is said, and not waited for', async () => {
  // Node's own recursive mkdir tries without end here.
  const end = await fetchTo('/proc/no-such/folder/', '/');
  assert.equal(end.kind, 'failed');
  assert.match(end.kind === 'failed' ? end.reason : '', /\/proc\/no-such/);
});

test("a missing folder is created with its parents, with the permissions of the user's new folders", async (t) => {
  const folder = temporaryFolder(t);
  await fetchTo('a/b/', folder);
  const umask = process.umask();
  assert.equal(statSync(join(folder, 'a')).mode & 0o777, 0o777 & ~umask);
  assert.deepEqual(readdirSync(join(folder, 'a')), [], 'the copy failed, so its own folder does not stay');
});

test('a file that this machine does not have is reported as such', async () => {
  const signal = new AbortController().signal;
  const request = { from: 'none', to: '', replace: false, onProgress: () => undefined, signal, cwd: '/nowhere' };
  assert.deepEqual(await copyToRemote(silent, request), {
    kind: 'failed',
    cause: 'missing',
    reason: '/nowhere/none does not exist on this machine',
  });
});

interface Member {
  readonly name: string;
  /** A type flag of POSIX tar: 0 file, 1 hard link, 2 symbolic link, 3 character device, 5 folder, 6 FIFO; L of GNU: a long name. */
  readonly type?: '0' | '1' | '2' | '3' | '5' | '6' | 'L';
  readonly mode?: number;
  readonly text?: string;
  readonly link?: string;
}

/** An archive in the ustar format of POSIX, with whatever names and types a hostile worker chooses. */
function archive(members: readonly Member[]): Buffer {
  const blocks: Buffer[] = [];
  for (const { name, type = '0', mode = 0o644, text = '', link = '' } of members) {
    const head = Buffer.alloc(512);
    const put = (value: string, at: number): number => head.write(value, at, 'latin1');
    const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, '0')}\0`;
    put(name, 0);
    put(octal(mode, 7), 100);
    put(octal(0, 7), 108);
    put(octal(0, 7), 116);
    put(octal(text.length, 11), 124);
    put(octal(1_700_000_000, 11), 136);
    put('        ', 148);
    put(type, 156);
    put(link, 157);
    put('ustar\0' + '00', 257);
    put(octal(1, 7), 329);
    put(octal(3, 7), 337);
    put(
      `${head
        .reduce((sum, byte) => sum + byte, 0)
        .toString(8)
        .padStart(6, '0')}\0 `,
      148,
    );
    blocks.push(head, Buffer.from(text.padEnd(Math.ceil(text.length / 512) * 512, '\0'), 'latin1'));
  }
  return Buffer.concat([...blocks, Buffer.alloc(1_024)]);
}

/** Copies `from` out of a worker whose `tar` prints these members, into a folder that holds `.bashrc` and `results`. */
async function fetchHostile(
  t: TestContext,
  members: readonly Member[],
  { from = 'results', to = './', replace = false }: { from?: string; to?: string; replace?: boolean } = {},
): Promise<{ readonly end: CopyEnd; readonly folder: string; readonly left: readonly string[] }> {
  const above = temporaryFolder(t);
  const folder = join(above, 'here');
  mkdirSync(folder);
  writeFileSync(join(folder, '.bashrc'), 'mine\n');
  writeFileSync(join(above, 'outside'), 'mine\n');
  const start: StartSession = ({ onBytes }) => ({
    ...silent(),
    ended: (async () => {
      await onBytes(archive(members), 'stdout');
      return { kind: 'ended', exitCode: 0, signal: null };
    })(),
  });
  const signal = new AbortController().signal;
  const end = await copyFromRemote(start, { from, to, replace, onProgress: () => undefined, signal, cwd: folder });
  assert.equal(readFileSync(join(folder, '.bashrc'), 'utf8'), 'mine\n');
  assert.equal(readFileSync(join(above, 'outside'), 'utf8'), 'mine\n');
  assert.deepEqual(readdirSync(above).toSorted(), ['here', 'outside'], 'nothing is written outside the folder');
  return { end, folder, left: readdirSync(folder).toSorted() };
}

test('a worker chooses neither the name of a copy nor what is replaced', async (t) => {
  const evil: Member = { name: '.bashrc', text: 'evil\n' };
  const refused: readonly (readonly Member[])[] = [
    [evil],
    [
      { name: '.profile', text: 'evil\n' },
      { name: 'results/', type: '5' },
    ],
    [{ name: 'results/', type: '5' }, evil],
    [{ name: '../outside', text: 'evil\n' }],
    [
      { name: 'results', type: '2', link: '..' },
      { name: 'results/outside', text: 'evil\n' },
    ],
    [{ name: './', type: '5' }, evil],
    [],
  ];
  for (const members of refused) {
    const { end, left } = await fetchHostile(t, members);
    assert.equal(end.kind, 'failed', JSON.stringify(members));
    assert.deepEqual(left, ['.bashrc'], JSON.stringify(members));
  }
  // A link to a folder: the worker sends the folder, which gets the name that was asked for.
  const resolved = await fetchHostile(t, [{ name: 'step-100/', type: '5', mode: 0o755 }]);
  assert.equal(resolved.end.kind, 'done');
  assert.deepEqual(resolved.left, ['.bashrc', 'results']);
  for (const from of ['~', '', '.', 'a/..']) {
    const { end, left } = await fetchHostile(t, [{ name: '.config', type: '5', mode: 0o755 }], { from });
    assert.equal(end.kind, 'done', from);
    assert.deepEqual(left, ['.bashrc', 'home'], from);
  }
});

test('a copy replaces only the named file or link, and only with --replace', async (t) => {
  const file: Member = { name: '.bashrc', text: 'evil\n' };
  const { end } = await fetchHostile(t, [file], { from: '.bashrc' });
  assert.equal(end.kind === 'failed' && end.cause, 'conflict');
  const { end: named, folder } = await fetchHostile(t, [{ name: 'results', text: 'new\n' }], { to: 'mine' });
  assert.equal(named.kind, 'done');
  assert.equal(readFileSync(join(folder, 'mine'), 'utf8'), 'new\n');
  symlinkSync('no-such-file', join(folder, 'link'));
  const ask = { from: 'results', onProgress: () => undefined, signal: new AbortController().signal, cwd: folder };
  const start: StartSession = ({ onBytes }) => ({
    ...silent(),
    ended: (async () => {
      await onBytes(archive([{ name: 'results', text: 'newer\n' }]), 'stdout');
      return { kind: 'ended', exitCode: 0, signal: null };
    })(),
  });
  for (const to of ['mine', 'link']) {
    const inTheWay = await copyFromRemote(start, { ...ask, to, replace: false });
    assert.equal(inTheWay.kind === 'failed' && inTheWay.cause, 'conflict', to);
    assert.equal((await copyFromRemote(start, { ...ask, to, replace: true })).kind, 'done', to);
    assert.equal(readFileSync(join(folder, to), 'utf8'), 'newer\n', to);
  }
});

test('a copy has no programs that run as another user, no devices and no FIFOs', async (t) => {
  const { end, folder } = await fetchHostile(t, [
    { name: 'results/', type: '5', mode: 0o755 },
    { name: 'results/sh', mode: 0o6755, text: '#!/bin/sh\n' },
    { name: 'results/private', mode: 0o600 },
    { name: 'results/fifo', type: '6' },
    // Made by root only; elsewhere tar refuses it and the copy fails.
    ...(process.getuid?.() === 0 ? [{ name: 'results/null', type: '3' } as const] : []),
    { name: 'results/latest', type: '2', link: 'sh' },
  ]);
  assert.equal(end.kind, 'done', JSON.stringify(end));
  assert.equal(end.kind === 'done' && end.skipped, process.getuid?.() === 0 ? 2 : 1);
  assert.deepEqual(readdirSync(join(folder, 'results')).toSorted(), ['latest', 'private', 'sh']);
  assert.equal(statSync(join(folder, 'results/sh')).mode & 0o7777, 0o755 & ~process.umask());
  assert.equal(statSync(join(folder, 'results/private')).mode & 0o7777, 0o600);
  const alone = await fetchHostile(t, [{ name: 'results', type: '6' }]);
  assert.equal(alone.end.kind, 'failed');
  assert.deepEqual(alone.left, ['.bashrc']);
});

/** A container whose image has these programs only; what is printed there before its input has ended is noticed. */
function container(path: string): StartSession {
  return ({ program, onBytes, hasInput: receives }) => {
    if (program.kind !== 'argv') throw new Error('a copy is a program with arguments');
    const [, ...args] = program.argv;
    const child = spawn('/bin/sh', args, { env: { PATH: path }, cwd: '/', stdio: 'pipe' });
    child.stdin.on('error', () => undefined);
    if (!receives) child.stdin.end();
    child.stdout.on('data', (chunk: Buffer) => void onBytes(chunk, 'stdout'));
    child.stderr.on('data', (chunk: Buffer) => void onBytes(chunk, 'stderr'));
    return {
      write: (bytes) => new Promise((resolve) => child.stdin.write(bytes, () => resolve())),
      end: () => void child.stdin.end(),
      resize: () => undefined,
      stop: () => void child.kill(),
      ended: new Promise((resolve) => {
        child.once('close', (exitCode, signal) => resolve({ kind: 'ended', exitCode, signal }));
      }),
    };
  };
}

test('an archive that is deeper than a path can be long is refused, and nothing of it stays', async (t) => {
  // Each member hangs on the one before: GNU tar makes the folders one below the other from names in its own format.
  const part = 'd'.repeat(100);
  const members: Member[] = [{ name: 'results', type: '5', mode: 0o755 }];
  for (let depth = 1; depth <= 60; depth += 1) {
    const name = `results/${`${part}/`.repeat(depth)}`;
    members.push({ name: '././@LongLink', type: 'L', text: `${name}\0` }, { name: 'results', type: '5', mode: 0o755 });
  }
  const { end, left } = await fetchHostile(t, members);
  assert.equal(end.kind, 'failed');
  assert.deepEqual(left, ['.bashrc']);
});

test('an image without tar is said as it is, both ways', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'file'), 'x');
  const signal = new AbortController().signal;
  const request = { replace: false, onProgress: () => undefined, signal, cwd: folder, runsIn: 'container' as const };
  const failed = { kind: 'failed', cause: 'failed', reason: 'the image has no tar' };
  assert.deepEqual(await copyToRemote(container(folder), { ...request, from: 'file', to: '/tmp/' }), failed);
  assert.deepEqual(await copyFromRemote(container(folder), { ...request, from: '/etc/hostname', to: './' }), failed);
});

test('a container that refuses a copy gets no further input', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'big'), Buffer.alloc(64_000_000, 7));
  let bytes = 0;
  const end = await copyToRemote(container('/usr/bin:/bin'), {
    from: 'big',
    to: '/nowhere/big',
    replace: false,
    onProgress: (more) => void (bytes += more),
    signal: new AbortController().signal,
    cwd: folder,
    runsIn: 'container',
  });
  assert.deepEqual(end, { kind: 'failed', cause: 'missing', reason: 'the folder /nowhere does not exist' });
  assert.ok(bytes < 64_000_000, `${bytes} bytes were sent`);
});

test('in a container relative paths start at the working directory', async (t) => {
  const folder = temporaryFolder(t);
  const request = { replace: false, onProgress: () => undefined, signal: new AbortController().signal, cwd: folder };
  // The working directory of the container above is /.
  const end = await copyFromRemote(container('/usr/bin:/bin'), {
    ...request,
    from: 'etc/passwd',
    to: 'copy',
    runsIn: 'container',
  });
  assert.deepEqual(end, { kind: 'done', path: join(folder, 'copy'), bytes: readFileSync('/etc/passwd').length });
  assert.equal(readFileSync(join(folder, 'copy'), 'utf8'), readFileSync('/etc/passwd', 'utf8'));
});
