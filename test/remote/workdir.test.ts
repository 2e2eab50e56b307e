/**
 * A working directory from this machine to a worker: its selection, its transfer, and the result on the worker. Git, tar and the
 * worker's shell are real; the worker is a home folder on this machine.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { createMachines } from '../../src/backends/machines.ts';
import { workdirKey } from '../../src/core/model/job.ts';
import type { RunRequest } from '../../src/remote/transport.ts';
import { createLocalTransport } from '../support/local-transport.ts';
import { freeze, workdirLimits } from '../../src/remote/workdir/freeze.ts';
import { difference, listScript, parseListing } from '../../src/remote/workdir/send.ts';
import { workdirStep } from '../../src/setup/files.ts';
import { findProgram } from '../support/real.ts';
import { openWorld } from '../support/world.ts';
import { testRef } from './machines-contract.ts';

const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', '-c', 'init.defaultBranch=main'];

/** A project, the folder of the copies, and a worker. */
function openGround(t: TestContext) {
  const world = openWorld(t);
  const project = join(world.folder, 'my project');
  const home = join(world.folder, 'worker home');
  const root = join(home, 'runs/000001');
  for (const folder of [project, home]) mkdirSync(folder, { recursive: true });
  const env = { ...world.env, HOME: home, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' };
  const git = (...args: readonly string[]) =>
    execFileSync('git', [...identity, ...args], { cwd: project, env, stdio: 'pipe' })
      .toString()
      .trim();
  const scripts: string[] = [];
  const transport = createLocalTransport({ env, cwd: home });
  const run = (request: RunRequest) => {
    scripts.push(request.script);
    return transport.run(request);
  };
  const log: string[] = [];
  const machines = createMachines({
    findTransport: () => Promise.resolve({ kind: 'open', transport: { ...transport, run } }),
    root: () => `'${root}'`,
    appendStepLog: (_job, _step, _worker, chunk) => {
      log.push(Buffer.from(chunk).toString());
      return Promise.resolve();
    },
    blobs: { read: () => Promise.reject(new Error('no blob is needed')) },
    readSecret: () => Promise.reject(new Error('no secret is needed')),
    workdirCopyFolder: (_job, snapshot) => join(world.folder, 'copies', String(snapshot)),
    now: () => Date.now(),
    disconnect: () => undefined,
  });
  return {
    world,
    project,
    env,
    root,
    there: join(root, 'workdir'),
    git,
    scripts,
    log,
    take: (snapshot: number, from = project) =>
      freeze({
        from,
        to: join(world.folder, 'copies', String(snapshot)),
        excluded: join(project, 'jobman-home'),
        env,
        at: 1,
      }),
    send: (snapshot: number) =>
      machines.runStep(testRef('000001'), { ...workdirStep(), key: workdirKey(snapshot), workdirCopy: snapshot }),
  };
}

function put(folder: string, name: string | Uint8Array, text: string | Uint8Array): void {
  const path = Buffer.concat([Buffer.from(`${folder}/`), Buffer.from(name)]);
  const slash = path.lastIndexOf('/');
  mkdirSync(path.subarray(0, slash), { recursive: true });
  writeFileSync(path, text);
}

/** Everything below a folder by its name's bytes. */
function tree(folder: string): readonly string[] {
  return execFileSync('find', ['.', '-mindepth', '1', '!', '-type', 'd', '-print0'], { cwd: folder })
    .toString('latin1')
    .split('\0')
    .filter(Boolean)
    .toSorted();
}

suite('a working directory on a worker', () => {
  test('is what git does not ignore, with modes, links and names as they are', async (t) => {
    const { project, git, take, send, there } = openGround(t);
    git('init');
    put(project, '.gitignore', 'data/\n*.tmp\n');
    put(project, 'train.py', 'print(1)\n');
    put(project, 'with space/and "quotes" $x.txt', 'a');
    put(project, 'line\nbreak', 'b');
    put(project, Buffer.from([0x63, 0x61, 0x66, 0xe9]), 'latin1');
    put(project, '-rf', 'c');
    put(project, 'data/large.bin', 'ignored');
    put(project, 'x.tmp', 'ignored');
    put(project, 'gone.py', 'deleted before the copy');
    put(project, 'run.sh', '#!/bin/sh\n');
    chmodSync(join(project, 'run.sh'), 0o750);
    symlinkSync('train.py', join(project, 'link'));
    symlinkSync('/nowhere/at all', join(project, 'dangling'));
    put(project, 'big.bin', Buffer.alloc(5 * 1024 * 1024, 7));
    put(project, 'jobman-home/state.db', 'never part of it');
    git('add', '--all');
    git('commit', '-m', 'first');
    rmSync(join(project, 'gone.py'));
    put(project, 'new and not added.py', 'print(2)\n');
    put(project, 'train.py', 'print(3)\n');

    const about = await take(1);
    assert.deepEqual(await send(1), { kind: 'done' });
    assert.deepEqual(about.git, { commit: git('rev-parse', 'HEAD'), branch: 'main', changed: true });
    const expected = [
      './-rf',
      './.gitignore',
      './big.bin',
      './caf\u00e9',
      './dangling',
      './line\nbreak',
      './link',
      './new and not added.py',
      './run.sh',
      './train.py',
      './with space/and "quotes" $x.txt',
    ];
    assert.deepEqual(tree(there), expected);
    assert.equal(about.files, expected.length);
    assert.equal(readFileSync(join(there, 'train.py'), 'utf8'), 'print(3)\n');
    assert.deepEqual(
      [readlinkSync(join(there, 'link')), readlinkSync(join(there, 'dangling'))],
      ['train.py', '/nowhere/at all'],
    );
    assert.equal(statSync(join(there, 'run.sh')).mode & 0o777, 0o750);
    assert.ok(readFileSync(join(there, 'big.bin')).equals(readFileSync(join(project, 'big.bin'))));
    const seconds = (path: string) => Math.floor(lstatSync(path).mtimeMs / 1000);
    assert.equal(seconds(join(there, 'big.bin')), seconds(join(project, 'big.bin')));
    const diff = readFileSync(join(there, '../../../../copies/1/changes.diff'), 'utf8');
    assert.match(diff, /-print\(1\)\n\+print\(3\)/);
    assert.match(diff, /deleted file mode[^]*gone\.py/);
  });

  test('has nothing of what is behind a link where git knows a folder', async (t) => {
    const { world, project, git, take, send, there } = openGround(t);
    git('init');
    put(project, '.gitignore', '/ignored\n');
    for (const folder of ['data', 'ignored', 'inside', 'real'])
      for (const name of ['f', 'deep/f']) put(project, `${folder}/${name}`, 'known');
    git('add', '--all', '--force');
    git('commit', '-m', 'first');
    const outside = join(world.folder, 'outside');
    for (const name of ['f', 'deep/f']) put(outside, name, 'of another folder');
    for (const [folder, target] of [
      ['data', outside],
      ['ignored', '../outside'],
      ['inside', 'real'],
    ] as const) {
      rmSync(join(project, folder), { recursive: true });
      symlinkSync(target, join(project, folder));
    }
    await take(1);
    assert.deepEqual(await send(1), { kind: 'done' });
    assert.deepEqual(tree(there), ['./.gitignore', './data', './inside', './real/deep/f', './real/f']);
    assert.equal(readlinkSync(join(there, 'data')), outside);
    assert.equal(readFileSync(join(outside, 'f'), 'utf8'), 'of another folder');
  });

  test('gets only what has changed since, and keeps what the program has made there', async (t) => {
    const { project, git, take, send, there, root, scripts } = openGround(t);
    git('init');
    put(project, 'big.bin', Buffer.from(Array.from({ length: 3_000_000 }, (_, at) => (at * 2_654_435_761) >>> 24)));
    put(project, 'old.py', 'old');
    put(project, 'becomes-a-folder', 'file');
    put(project, 'becomes-a-file/x', 'x');
    await take(1);
    assert.equal((await send(1)).kind, 'done');
    const first = scripts.reduce((sum, script) => sum + script.length, 0);
    put(there, 'made/by the program.txt', 'results');
    appendFileSync(join(there, 'old.py'), 'spoilt');

    rmSync(join(project, 'old.py'));
    rmSync(join(project, 'becomes-a-folder'));
    rmSync(join(project, 'becomes-a-file'), { recursive: true });
    put(project, 'becomes-a-folder/y', 'y');
    put(project, 'becomes-a-file', 'file');
    put(project, 'new.py', 'new');
    await take(2);
    scripts.length = 0;
    assert.equal((await send(2)).kind, 'done');
    const second = scripts.reduce((sum, script) => sum + script.length, 0);
    assert.deepEqual(tree(there), [
      './becomes-a-file',
      './becomes-a-folder/y',
      './big.bin',
      './made/by the program.txt',
      './new.py',
    ]);
    assert.ok(second < first / 10, `${second} characters were sent for a few small files, and ${first} for all`);
    assert.deepEqual(readdirSync(root).toSorted(), ['proofs', 'steps', 'workdir', 'workdir.sent']);
  });

  test('is frozen: what changes here afterwards changes nothing there', async (t) => {
    const { project, take, send, there, world } = openGround(t);
    put(project, 'train.py', 'as it was');
    put(project, '.git-is-not/x', 'no repository');
    const about = await take(1);
    put(project, 'train.py', 'changed');
    assert.equal((await send(1)).kind, 'done');
    assert.equal(readFileSync(join(there, 'train.py'), 'utf8'), 'as it was');
    assert.equal(about.git, null);
    assert.deepEqual(
      readdirSync(join(world.folder, 'copies/1')).toSorted(),
      ['about.json', 'files'],
      'nothing is left of what was packed for the way',
    );
  });

  test('that is too large is refused with what is large in it', async (t) => {
    const { project, take, world } = openGround(t);
    put(project, 'weights/model.bin', '');
    truncateSync(join(project, 'weights/model.bin'), workdirLimits.bytes + 1);
    put(project, 'train.py', 'small');
    await assert.rejects(
      take(1),
      /has 512 MiB in 2 files; the largest are weights\/model\.bin \(512 MiB\).*\.gitignore/,
    );
    assert.equal(existsSync(join(world.folder, 'copies/1')), false);
  });

  test('in which git ignores everything is refused', async (t) => {
    const { project, git, take } = openGround(t);
    git('init');
    put(project, '.gitignore', '*\n');
    await assert.rejects(take(1), /git ignores all its files/);
  });

  test('never is the folder of jobman itself, nor holds it, by whatever name', async (t) => {
    const { world, project, take } = openGround(t);
    put(project, 'train.py', 'print(1)\n');
    put(project, 'jobman-home/ssh/id_ed25519', 'a key');
    await assert.rejects(take(1, join(project, 'jobman-home')), /is the folder of jobman itself/);
    const link = join(world.folder, 'a link');
    symlinkSync(project, link);
    await take(2, link);
    assert.deepEqual(tree(join(world.folder, 'copies', '2', 'files')), ['./train.py']);
  });

  test('is copied again if a file vanished during the copy; an unreadable file is reported', async (t) => {
    const { world, project, env, take } = openGround(t);
    const tar = findProgram('tar');
    assert.ok(tar !== undefined);
    put(project, 'train.py', 'print(1)\n');
    const bin = join(world.folder, 'bin');
    // Like an editor: as many files vanish as exist.
    put(bin, 'tar', `#!/bin/sh\nfor gone in '${project}'/*.tmp; do rm -f "$gone"; break; done\nexec ${tar} "$@"\n`);
    chmodSync(join(bin, 'tar'), 0o755);
    Object.assign(env, { PATH: `${bin}:/usr/bin:/bin` });
    put(project, 'one.tmp', '');
    put(project, 'two.tmp', '');
    const { files } = await take(1);
    assert.equal(files, 1);
    assert.deepEqual(tree(join(world.folder, 'copies', '1', 'files')), ['./train.py']);
    // For a failure that does not come from the files, once is enough.
    writeFileSync(join(bin, 'tar'), `#!/bin/sh\necho turn >>'${bin}/turns'\necho not today >&2\nexit 2\n`);
    await assert.rejects(take(2), /cannot be copied: not today/);
    // A reader and a writer, once each.
    assert.equal(readFileSync(join(bin, 'turns'), 'utf8'), 'turn\n'.repeat(2));
  });

  test('that has lost its copy here fails with a sentence, and can be tried again', async (t) => {
    const { send } = openGround(t);
    const outcome = await send(1);
    assert.equal(outcome.kind, 'failed');
    assert.match(JSON.stringify(outcome), /copies\/1 cannot be read/);
  });
});

test('a listing that was cut is no listing', () => {
  assert.equal(parseListing(Buffer.from(['f', '644', ''].join('\0'))), undefined);
  assert.equal(parseListing(Buffer.from(['f', '644', '1', '2', '', 'a', 'sent', ''].join('\0'))), undefined);
  assert.deepEqual(parseListing(Buffer.from('sent\0end\0')), { entries: [], sent: [] });
  assert.match(listScript('"$root"/workdir', '"$root"/sent'), /find/);
});

test('files that jobman did not send are not removed', () => {
  const entry = (path: string) => ({ path, fingerprint: 'f 644 1 1' });
  const there = { entries: [entry('a'), entry('b'), entry('made')], sent: ['a', 'b', 'gone'] };
  assert.deepEqual(difference([entry('a')], there), { send: [], remove: ['b'] });
});
