// While the SFTP server uses a path, a program of the host replaces a folder or file by a symbolic link. The server
// must not read or change anything outside the host's root.

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { lstat, rename, symlink, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import ssh2, { type SFTPWrapper } from 'ssh2';
import { createFileView, type FileView } from '../../src/emulator/hosts/file-view.ts';
import { serveSftp } from '../../src/emulator/hosts/sftp.ts';
import { temporaryFolder } from '../support/folder.ts';

const { OPEN_MODE } = ssh2.utils.sftp;
const old = { atime: 1, mtime: 1 };

for (const swapped of ['the folder', 'the last name'] as const) {
  const requests: readonly (readonly [string, ...unknown[]])[] = [
    ['OPEN', '/work/file', OPEN_MODE.READ, {}],
    ['OPEN', '/work/file', OPEN_MODE.WRITE | OPEN_MODE.CREAT | OPEN_MODE.TRUNC, {}],
    ['OPEN', '/work/new', OPEN_MODE.WRITE | OPEN_MODE.CREAT, {}],
    ['OPENDIR', '/work/sub'],
    ['STAT', '/work/file'],
    ['LSTAT', '/work/file'],
    ['SETSTAT', '/work/file', { size: 0, mode: 0o777, ...old }],
    ['REMOVE', '/work/file'],
    ['MKDIR', '/work/new', {}],
    ['RMDIR', '/work/empty'],
    ['RENAME', '/work/file', '/work/renamed'],
    ['RENAME', '/work/sub', '/work/renamed'],
    ['SYMLINK', '/work/new', 'target'],
  ];
  for (const [operation, path, ...more] of requests) {
    test(`${operation} ${String(path)} ${more.map((arg) => JSON.stringify(arg)).join(' ')}: ${swapped} is swapped`, async (t) => {
      const { root, outside } = trees(t);
      const before = listingOf(outside);
      const inside = listingOf(join(root, 'work'));
      const view = createFileView(root, '/');
      const name = String(path).split('/').at(-1) ?? '';
      const sftp = serve(root, {
        ...view,
        async resolve(...args) {
          const resolved = await view.resolve(...args);
          const isFirst = existsSync(join(root, 'work')) && !existsSync(join(root, 'moved'));
          if (isFirst && swapped === 'the folder') {
            renameSync(join(root, 'work'), join(root, 'moved'));
            symlinkSync(outside, join(root, 'work'));
          } else if (isFirst) {
            mkdirSync(join(root, 'moved'));
            if (existsSync(join(root, 'work', name))) renameSync(join(root, 'work', name), join(root, 'moved', name));
            symlinkSync(join(outside, name), join(root, 'work', name));
          }
          return resolved;
        },
      });
      const [kind, answer] = await sftp.ask(operation, path, ...more);
      if (kind === 'handle') {
        const handle = answer as Buffer;
        const isFolder = operation === 'OPENDIR';
        const [, read] = isFolder ? await sftp.ask('READDIR', handle) : await sftp.ask('READ', handle, 0, 100);
        if (isFolder) assert.doesNotMatch(JSON.stringify(read), /secret/u);
        else assert.doesNotMatch(String(read), /outside/u);
        await sftp.ask('CLOSE', handle);
      }
      if (operation === 'STAT' || operation === 'LSTAT')
        assert.notEqual((answer as { readonly size: number }).size, statSync(join(outside, 'file')).size);
      if (swapped === 'the folder' && operation !== 'RENAME') assert.notEqual(kind, 'failure');
      assert.deepEqual(listingOf(outside), before, 'nothing outside has changed');
      assert.notDeepEqual(inside, before);
    });
  }
}

test('an open folder stays the same folder after a swap', async (t) => {
  const { root, outside } = trees(t);
  const sftp = serve(root);
  const [, handle] = await sftp.ask('OPENDIR', '/work');
  renameSync(join(root, 'work'), join(root, 'moved'));
  symlinkSync(outside, join(root, 'work'));
  const [, names] = await sftp.ask('READDIR', handle);
  const entries = names as readonly { readonly filename: string; readonly attrs: { readonly size: number } }[];
  assert.deepEqual(entries.map(({ filename }) => filename).toSorted(), ['.', '..', 'empty', 'file', 'sub']);
  assert.equal(entries.find(({ filename }) => filename === 'file')?.attrs.size, 'inside'.length);
  await sftp.ask('CLOSE', handle);
});

test('a path that is swapped during its resolution never leaves the root', async (t) => {
  const { root, outside } = trees(t);
  mkdirSync(join(outside, 'sub', 'deep'));
  writeFileSync(join(outside, 'sub', 'deep', 'file'), 'outside');
  mkdirSync(join(root, 'work', 'sub', 'deep'));
  writeFileSync(join(root, 'work', 'sub', 'deep', 'file'), 'inside');
  symlinkSync('/work/sub/../sub/deep', join(root, 'way'));
  const secret = statSync(join(outside, 'sub', 'deep', 'file')).ino;
  const own = statSync(join(root, 'work', 'sub', 'deep', 'file')).ino;
  const view = createFileView(root, '/');
  let isOver = false;
  const swapping = (async () => {
    while (!isOver) {
      await rename(join(root, 'work'), join(root, 'moved'));
      await symlink(outside, join(root, 'work'));
      await unlink(join(root, 'work'));
      await rename(join(root, 'moved'), join(root, 'work'));
    }
  })();
  const find = async (path: string): Promise<number> => {
    const resolved = await view.resolve(path);
    try {
      return (await lstat(resolved.fdPath)).ino;
    } finally {
      await resolved.release();
    }
  };
  for (let turn = 0; turn < 400; turn += 1) {
    const found = await find(turn % 2 === 0 ? '/work/sub/deep/file' : '/way/file').catch(() => own);
    assert.notEqual(found, secret);
  }
  isOver = true;
  await swapping;
  assert.equal(await find('/way/file'), own);
  assert.equal(await find('../../way/../../sub/./deep/../deep/file'), own);
});

test('the resolution keeps one folder open at a time, and none after an error', async (t) => {
  const { root } = trees(t);
  const deep = `/work${'/d'.repeat(300)}`;
  mkdirSync(join(root, deep), { recursive: true });
  symlinkSync('loop', join(root, 'loop'));
  const view = createFileView(root, '/');
  const openFolders = (): number => readdirSync('/proc/self/fd').length;
  const before = openFolders();
  const resolved = await view.resolve(`${deep}/${'../'.repeat(299)}x`);
  assert.equal(resolved.path, '/work/d/x');
  assert.equal(openFolders(), before + 1);
  await resolved.release();
  for (const [path, code] of [
    ['/loop/x', 'ELOOP'],
    ['/work/file/x', 'ENOTDIR'],
    ['/none/x', 'ENOENT'],
    [`/${'x/'.repeat(3000)}`, 'ENAMETOOLONG'],
  ] as const)
    await assert.rejects(view.resolve(path), { code });
  assert.equal(openFolders(), before);
});

/** The root of a host, and a folder of the machine outside it with the same names and other contents. */
function trees(t: TestContext): { readonly root: string; readonly outside: string } {
  const top = temporaryFolder(t);
  const root = join(top, 'root');
  const outside = join(top, 'outside');
  for (const [folder, text] of [
    [join(root, 'work'), 'inside'],
    [outside, 'outside the root'],
  ] as const) {
    mkdirSync(join(folder, 'sub'), { recursive: true });
    mkdirSync(join(folder, 'empty'));
    writeFileSync(join(folder, 'file'), text, { mode: 0o644 });
  }
  writeFileSync(join(outside, 'sub', 'secret'), 'outside the root');
  return { root, outside };
}

/** Everything in a folder that a request could change. */
function listingOf(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .toSorted()
    .map((name) => {
      const stats = statSync(join(folder, name));
      const text = stats.isFile() ? readFileSync(join(folder, name), 'utf8') : '';
      return `${name} ${stats.mode.toString(8)} ${String(stats.mtimeMs)} ${text}`;
    });
}

/** The server with a client that sends requests one after the other. */
function serve(
  root: string,
  view?: FileView,
): { ask(operation: string, ...args: readonly unknown[]): Promise<readonly [string, unknown]> } {
  const requests = new EventEmitter();
  const answers = new EventEmitter();
  const answer =
    (kind: string) =>
    (_request: number, ...given: readonly unknown[]): boolean =>
      answers.emit('answer', kind === 'status' && given[0] !== 0 ? 'failure' : kind, given[0]);
  const wrapper = Object.assign(requests, {
    ...Object.fromEntries(['status', 'handle', 'data', 'name', 'attrs'].map((kind) => [kind, answer(kind)])),
    end: () => undefined,
  });
  serveSftp(wrapper as unknown as SFTPWrapper, { root, home: '/' }, view);
  return {
    async ask(operation, ...args) {
      const answered = once(answers, 'answer');
      requests.emit(operation, 1, ...args);
      return (await answered) as unknown as readonly [string, unknown];
    },
  };
}
