/**
 * A working directory from this machine to a worker: its selection, its transfer, and the result on the worker. Git, tar and the
 * worker's shell are real; the worker is a home folder on this machine.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { createMachines } from '../../src/backends/machines.ts';
import { workdirKey } from '../../src/core/model/job.ts';
import type { RunRequest } from '../../src/remote/transport.ts';
import { createLocalTransport } from '../support/local-transport.ts';
import { isFile, readTree } from '../../src/app/tree.ts';
import { createBlobs } from '../../src/files/blobs.ts';
import { workdirCopiesIn } from '../../src/files/workdir-copies.ts';
import { digestOf, type Digest } from '../../src/catalogue/digest.ts';
import { freeze } from '../../src/remote/workdir/freeze.ts';
import { difference, listScript, parseListing } from '../../src/remote/workdir/send.ts';
import { workdirStep } from '../../src/setup/files.ts';
import { temporaryFolder } from '../support/folder.ts';
import { aJob, tpuSpec } from '../support/builders.ts';
import { openWorld } from '../support/world.ts';
import { requireReal } from '../support/real.ts';
import { testRef } from './machines-contract.ts';

const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', '-c', 'init.defaultBranch=main'];

/** Longer than the names in the header of tar. */
const longName = `long/${'name'.repeat(40)}`;

const maxBytes = 512 * 1024 * 1024;

/** A project, the stored copies, and a worker. */
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
  const blobs = createBlobs(world.home);
  const trees = new Map<number, Digest>();
  /** The numbers of contents that were sent for each call. */
  const puts: number[] = [];
  const client = {
    hasBlobs: (digests: readonly Digest[]) => blobs.has(digests),
    putBlobs: (given: Parameters<typeof blobs.put>[0]) => {
      puts.push(given.length);
      // The memory of a server is limited.
      assert.ok(given.reduce((sum, { content }) => sum + content.byteLength, 0) <= 32 * 1024 * 1024);
      return blobs.put(given);
    },
  };
  const machines = createMachines({
    findTransport: () => Promise.resolve({ kind: 'open', transport: { ...transport, run } }),
    root: () => `'${root}'`,
    appendStepLog: (_job, _step, _worker, chunk) => {
      log.push(Buffer.from(chunk).toString());
      return Promise.resolve();
    },
    blobs: { read: () => Promise.reject(new Error('no blob is needed')) },
    readSecret: () => Promise.reject(new Error('no secret is needed')),
    openWorkdir: (_job, copy) => {
      const tree = trees.get(copy);
      const taken = tree === undefined ? {} : { workdirCopy: copy, workdirTree: tree };
      return workdirCopiesIn(world.home).open(aJob(tpuSpec({ workdir: { tree: null } }), taken), copy);
    },
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
    blobs,
    puts,
    trees,
    take: async (copy: number, from = project) => {
      const indexes = join(world.folder, 'indexes');
      const frozen = await freeze({
        from,
        client,
        indexes,
        excluded: join(project, 'jobman-home'),
        maxBytes,
        env,
        at: 1,
      });
      trees.set(copy, frozen.tree);
      return { ...frozen, ...frozen.about };
    },
    pathsOf: async (copy: number) =>
      (await readTree(blobs, trees.get(copy) ?? assert.fail('no copy'))).map(({ path }) => path),
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
    const { project, git, take, send, there, blobs } = openGround(t);
    git('init');
    put(project, '.gitignore', 'data/\n*.tmp\n');
    put(project, 'train.py', 'print(1)\n');
    put(project, 'with space/and "quotes" $x.txt', 'a');
    put(project, 'line\nbreak', 'b');
    put(project, Buffer.from([0x63, 0x61, 0x66, 0xe9]), 'latin1');
    put(project, '-rf', 'c');
    put(project, longName, 'd');
    put(project, 'data/large.bin', 'ignored');
    put(project, 'x.tmp', 'ignored');
    put(project, 'gone.py', 'deleted before the copy');
    put(project, 'run.sh', '#!/bin/sh\n');
    chmodSync(join(project, 'run.sh'), 0o750);
    symlinkSync('train.py', join(project, 'link'));
    symlinkSync('/nowhere/at all', join(project, 'dangling'));
    symlinkSync(`/nowhere/${longName}`, join(project, 'far'));
    chmodSync(join(project, longName), 0o444);
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
      './far',
      './line\nbreak',
      './link',
      `./${longName}`,
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
    assert.equal(readlinkSync(join(there, 'far')), `/nowhere/${longName}`);
    assert.equal(statSync(join(there, longName)).mode & 0o777, 0o444);
    const diff = Buffer.from(await blobs.read(about.changes ?? assert.fail('no changes'))).toString();
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
    const { project, take, send, there, world, pathsOf } = openGround(t);
    put(project, 'train.py', 'as it was');
    put(project, '.git-is-not/x', 'no repository');
    const about = await take(1);
    put(project, 'train.py', 'changed');
    assert.equal((await send(1)).kind, 'done');
    assert.equal(readFileSync(join(there, 'train.py'), 'utf8'), 'as it was');
    assert.equal(about.git, null);
    assert.deepEqual(await pathsOf(1), ['.git-is-not/x', 'train.py']);
    const { path } = workdirCopiesIn(world.home).folderOf(aJob(), 1);
    assert.deepEqual(readdirSync(path), [], 'nothing is left of what was packed for the way');
  });

  test('that is too large is refused with what is large in it', async (t) => {
    const { project, take, puts } = openGround(t);
    put(project, 'weights/model.bin', '');
    truncateSync(join(project, 'weights/model.bin'), maxBytes + 1);
    put(project, 'train.py', 'small');
    await assert.rejects(
      take(1),
      /has 512 MiB in 2 files; the largest are weights\/model\.bin \(512 MiB\).*\.gitignore, which needs a git repository/,
    );
    assert.deepEqual(puts, []);
  });

  test('with large files sends them in parts, once, and they arrive', async (t) => {
    const { project, take, send, there, puts, blobs, trees } = openGround(t);
    const large = randomBytes(37 * 1024 * 1024);
    put(project, 'model.bin', large);
    put(project, 'copy.bin', large.subarray(0, 33 * 1024 * 1024));
    put(project, 'train.py', 'small');
    await take(1);
    // The copy has two equal parts and an own third one.
    assert.deepEqual(puts, [1, 1, 1, 1, 1, 1]);
    const files = (await readTree(blobs, trees.get(1) ?? assert.fail())).filter(isFile);
    assert.deepEqual(
      files.map(({ path, size, digest, parts }) => [path, size, digest, parts?.length]),
      [
        ['copy.bin', 33 * 1024 * 1024, digestOf(large.subarray(0, 33 * 1024 * 1024)), 3],
        ['model.bin', large.length, digestOf(large), 3],
        ['train.py', 5, digestOf(Buffer.from('small')), undefined],
      ],
    );
    assert.equal((await send(1)).kind, 'done');
    assert.ok(readFileSync(join(there, 'model.bin')).equals(large));
    await take(2);
    assert.equal(puts.length, 6, 'the list of the files is the same too');
  });

  test('in which git ignores everything is refused', async (t) => {
    const { project, git, take } = openGround(t);
    git('init');
    put(project, '.gitignore', '*\n');
    await assert.rejects(take(1), /git ignores all its files/);
  });

  test('never is the folder of jobman itself, nor holds it, by whatever name', async (t) => {
    const { world, project, take, pathsOf } = openGround(t);
    put(project, 'train.py', 'print(1)\n');
    put(project, 'jobman-home/ssh/id_ed25519', 'a key');
    await assert.rejects(take(1, join(project, 'jobman-home')), /is the folder of jobman itself/);
    const link = join(world.folder, 'a link');
    symlinkSync(project, link);
    await take(2, link);
    assert.deepEqual(await pathsOf(2), ['train.py']);
  });

  test('is listed again if a file vanished during the copy; an unreadable file or folder is reported', async (t) => {
    const { project, env, world, git } = openGround(t);
    put(project, 'train.py', 'print(1)\n');
    put(project, 'one.tmp', 'an editor renames it');
    const blobs = createBlobs(world.home);
    let isFirst = true;
    const client = {
      putBlobs: (given: Parameters<typeof blobs.put>[0]) => blobs.put(given),
      // After the folder was listed and before its files are read.
      async hasBlobs(digests: readonly Digest[]) {
        if (isFirst) renameSync(join(project, 'one.tmp'), join(project, 'new.py'));
        isFirst = false;
        return blobs.has(digests);
      },
    };
    const folder = { from: project, excluded: world.home, maxBytes, env, indexes: null, at: 1 };
    const { tree: taken } = await freeze({ ...folder, client });
    assert.deepEqual(
      (await readTree(blobs, taken)).map(({ path }) => path),
      ['new.py', 'train.py'],
    );
    if (process.getuid?.() === 0) return;
    chmodSync(join(project, 'train.py'), 0);
    await assert.rejects(freeze({ ...folder, client }), /cannot be copied: EACCES.*train\.py/);
    chmodSync(join(project, 'train.py'), 0o600);
    put(project, 'lib/model.py', 'layers = 2\n');
    for (const isRepository of [false, true]) {
      if (isRepository) git('init', '--quiet');
      // Its names can be read, but not its files; or nothing.
      for (const mode of [0o600, 0]) {
        chmodSync(join(project, 'lib'), mode);
        await assert.rejects(
          freeze({ ...folder, client }),
          /cannot be copied: .*(permission denied|Permission denied)/,
        );
        chmodSync(join(project, 'lib'), 0o700);
      }
    }
  });

  test('is read and sent again only where it has changed', async (t) => {
    const { project, take, puts, blobs } = openGround(t);
    for (const name of ['a', 'b', 'c']) put(project, name, name);
    const old = new Date(Date.now() - 60_000);
    for (const name of ['a', 'b', 'c']) utimesSync(join(project, name), old, old);
    const first = await take(1);
    assert.equal((await take(2)).tree, first.tree);
    // The same size and time as before.
    put(project, 'b', 'B');
    utimesSync(join(project, 'b'), old, old);
    puts.length = 0;
    const second = await take(3);
    assert.deepEqual(puts, [1, 1], 'the file and the list');
    const [, changed] = await readTree(blobs, second.tree);
    assert.equal(changed !== undefined && 'digest' in changed && changed.digest, digestOf(Buffer.from('B')));
  });

  test('of version 1 is sent from the job’s folder', async (t) => {
    const { send, there, world } = openGround(t);
    const copies = workdirCopiesIn(world.home);
    const job = aJob();
    const files = join(copies.folderOf(job, 1).path, 'files');
    put(files, Buffer.from([0x63, 0x61, 0x66, 0xe9, 0x2f, 0x78]), 'x');
    put(files, '__pycache__/kept', 'git knows it');
    symlinkSync('train.py', join(files, 'link'));
    put(files, 'train.py', 'print(1)');
    chmodSync(join(files, 'train.py'), 0o750);
    assert.deepEqual(await send(1), { kind: 'done' });
    assert.deepEqual(tree(there), ['./__pycache__/kept', './caf\u00e9/x', './link', './train.py']);
    assert.equal(statSync(join(there, 'train.py')).mode & 0o777, 0o750);
    assert.equal(await copies.open(job, 2), null);
  });

  test('without its list here can be tried again; with a damaged file it fails once and for all', async (t) => {
    const { project, send, take, trees, world, log } = openGround(t);
    assert.match(JSON.stringify(await send(1)), /"kind":"failed".*its files on this machine are missing/);
    put(project, 'train.py', 'print(1)');
    await take(1);
    const digest = digestOf(Buffer.from('print(1)'));
    const file = join(world.home, 'blobs', digest.slice(7, 9), digest.slice(7));
    writeFileSync(file, 'damaged!');
    const outcome = JSON.stringify(await send(1));
    assert.match(
      outcome,
      new RegExp(`"kind":"refused".*the content of train.py of job.workdir, ${digest} is damaged: ${file} had`),
    );
    trees.set(2, digestOf(Buffer.from('never stored')));
    assert.match(
      JSON.stringify(await send(2)),
      /"kind":"refused".*the list of the files of job.workdir, .* is missing/,
    );
    assert.deepEqual(log, []);
  });
});

test('a full disk on the worker is reported as such', async (t) => {
  const { project, root, send, take } = openGround(t);
  mkdirSync(root, { recursive: true });
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', root]).status === 0;
  if (!requireReal(t, 'leave to mount a tmpfs', isMounted)) return;
  put(project, 'data', randomBytes(200_000));
  await take(1);
  const outcome = JSON.stringify(await send(1));
  spawnSync('umount', [root]);
  assert.ok(outcome.includes(`cannot write to ${root}: No space left on device`), outcome);
});

test('a list of files leads to no other folder', async (t) => {
  const blobs = createBlobs(temporaryFolder(t));
  const digest = digestOf(Buffer.from(''));
  const file = (path: string) => ({ path, mode: 0o644, size: 0, changedAtSeconds: 0, digest });
  const read = async (entries: unknown): Promise<unknown> => {
    const content = Buffer.from(JSON.stringify(entries));
    await blobs.put([{ digest: digestOf(content), content }]);
    return readTree(blobs, digestOf(content));
  };
  const good = [file('a/b'), { path: 'link', target: '../../etc' }];
  assert.deepEqual(await read(good), good);
  for (const [entries, message] of [
    [[file('../x')], /the entry .* is not valid/],
    [[file('a/../x')], /not valid/],
    [[file('/etc/x')], /not valid/],
    [[file('a//x')], /not valid/],
    [[file('./x')], /not valid/],
    [[file('')], /not valid/],
    [[file('a\u0000b')], /not valid/],
    [[{ ...file('a'), digest: 'sha256:1' }], /not valid/],
    [[{ ...file('a'), mode: 0o10000 }], /not valid/],
    [[{ path: 'link', target: '/etc' }, file('link/x')], /link\/x is below link, which is not a folder/],
    [[file('a'), file('a')], /it has a twice/],
    [{}, /it is not an array/],
  ] as const)
    await assert.rejects(read(entries), message);
});

test('a listing that was cut is not a listing', () => {
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
