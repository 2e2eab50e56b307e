/** Work in the pods of a real cluster: commands, terminals and forwarded ports through the front door. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { frontDoor, jobman, startJobman, type Ended, type Running } from '../support/jobman.ts';
import { changedKubeconfig, openCutLine, openKube, type Kube } from '../support/kube.ts';
import { hasTerminal, onTerminal } from '../support/on-terminal.ts';
import { openWorld, type World } from '../support/world.ts';

const small = '{"name":"small","resources":{"requests":{"cpu":"10m","memory":"20M"}}}';
/** Long enough for every test, and ended at once when it is asked to. */
const waits = 'trap "exit 0" TERM; /bin/sleep 600 & wait';

interface Place {
  readonly world: World;
  readonly kube: Kube;
  readonly at: readonly string[];
  readonly ask: (words: readonly string[], input?: string, kubeconfig?: string) => Promise<Ended>;
  readonly begin: (words: readonly string[]) => Running;
  /** Submits a job of that program and waits until so many of its pods run. */
  readonly run: (name: string, program: string, more?: readonly string[], pods?: number) => Promise<void>;
  /** The command lines in a pod of that job, seen by kubectl. */
  readonly running: (name: string) => string;
}

function place(t: TestContext): Place | undefined {
  const world = openWorld(t);
  const kube = openKube(t, world);
  if (kube === undefined) return undefined;
  const at = ['--namespace', kube.namespace];
  // A controller has no part in this.
  mkdirSync(world.home);
  writeFileSync(join(world.home, 'settings.json'), '{"kubernetes": {"keepLogs": false}}');
  const options = (kubeconfig = kube.admin) => ({ env: { KUBECONFIG: kubeconfig }, withinMs: 120_000 });
  const ask: Place['ask'] = (words, input = '', kubeconfig = kube.admin) =>
    jobman(world, words, { ...options(kubeconfig), input });
  return {
    world,
    kube,
    at,
    ask,
    begin: (words) => startJobman(world, words, options()),
    async run(name, program, more = [], pods = 1) {
      const made = await ask(
        ['submit', '-q', '-i', 'alpine', '-r', small, '-j', name, ...at, ...more, '--', '/bin/sh', '-c', program],
        '',
      );
      assert.equal(made.code, 0, made.stderr);
      const ready = (): string => kube.kubectl('get', 'job', name, '-o', 'jsonpath={.status.ready}');
      const isThere = await eventually(() => ready() === String(pods), { withinMs: 90_000 });
      assert.ok(isThere, `${name} does not run: ${kube.kubectl('get', 'pods', '-o', 'wide')}`);
    },
    running: (name) => kube.kubectl('exec', `job/${name}`, '--', '/bin/busybox', 'ps', '-o', 'args'),
  };
}

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** The address of the API server. */
function serverOf(world: World, kube: Kube): string {
  let server = '';
  changedKubeconfig(world, kube.admin, (config) => void (server = String(config.clusters[0]?.cluster['server'])));
  return server;
}

suite('a command in a pod', () => {
  test('is run as it was said; its output, its input and its exit code are its own', async (t) => {
    const p = place(t);
    if (p === undefined) return;
    const { ask, at, run, world } = p;
    await run('worker', waits);
    const exec = (...words: readonly string[]): Promise<Ended> => ask(['exec', '-j', 'worker', ...at, ...words]);

    const argv = await exec('--', 'printf', '%s|', 'a b', '$HOME', "it's", '');
    assert.deepEqual([argv.code, argv.stdout, argv.stderr], [0, "a b|$HOME|it's||", '']);
    const line = await exec('--', 'echo out; echo err >&2; exit 3');
    assert.deepEqual([line.code, line.stdout, line.stderr], [3, 'out\n', 'err\n']);
    const absent = await exec('--', 'no-such-program', 'x');
    assert.equal(absent.code, 127);
    assert.match(absent.stderr, /no-such-program/);
    const json = JSON.parse((await exec('--json', '--', 'hostname')).stdout) as { stdout: string; pod: string };
    assert.equal(json.stdout, `${json.pod}\n`);

    // Both ways more than any buffer on the way holds, and no byte of it is text.
    const file = join(world.folder, 'bytes');
    const bytes = randomBytes(6_000_000);
    writeFileSync(file, bytes);
    const script = `${frontDoor.join(' ')} exec -j worker ${at.join(' ')} -i -- cat <${file} >${file}.back`;
    execFileSync('sh', ['-c', script], { env: { ...world.env, KUBECONFIG: p.kube.admin } });
    assert.equal(digest(readFileSync(`${file}.back`)), digest(bytes));
    // Input that is not read keeps no exit code back.
    for (const [program, out] of [
      ['exit 7', ''],
      ['head -c 2; echo err >&2; exit 7', 'y\n'],
    ] as const) {
      const unread = `yes | { ${frontDoor.join(' ')} exec -j worker ${at.join(' ')} -i -- '${program}' 2>${file}.err; echo $?; }`;
      const printed: Buffer = execFileSync('sh', ['-c', unread], { env: { ...world.env, KUBECONFIG: p.kube.admin } });
      assert.equal(printed.toString(), `${out}7\n`);
      assert.equal(readFileSync(`${file}.err`, 'utf8'), out === '' ? '' : 'err\n');
    }
    const closed = await ask(['exec', '-j', 'worker', ...at, '-i', '--', 'cat; echo end'], 'one\n');
    assert.equal(closed.stdout, 'one\nend\n');
    const inputless = await exec('--', 'cat; echo end');
    assert.equal(inputless.stdout, 'end\n', 'without -i its input is empty');
  });

  test('is ended with its caller, and what it started with it', async (t) => {
    const p = place(t);
    if (p === undefined) return;
    const { at, begin, run, running, ask, world, kube } = p;
    await run('worker', waits);
    const gone = async (word: string): Promise<void> => {
      const isGone = await eventually(() => !running('worker').includes(word), { withinMs: 30_000 });
      assert.ok(isGone, running('worker'));
    };

    const left = begin(['exec', '-j', 'worker', ...at, '--', 'sleep 701 & echo begun; sleep 702; echo end']);
    await left.prints('begun', 60_000);
    left.child.kill('SIGINT');
    assert.equal((await left.ended).code, 130);
    await gone('sleep 70');

    // One that does not want to end is killed.
    const deaf = 'trap "" TERM; sleep 703 & while :; do sleep 1; done';
    const stubborn = await ask(['exec', '-j', 'worker', ...at, '--timeout', '2s', '--', deaf]);
    assert.equal(stubborn.code, 124, stubborn.stderr);
    await gone('sleep 703');

    // A line that is cut: the program is found over a new one.
    const line = await openCutLine(world, serverOf(world, kube), 3_600_000);
    const kubeconfig = changedKubeconfig(world, kube.admin, (config) => {
      for (const { cluster } of config.clusters) cluster['server'] = line.url;
    });
    const cut = startJobman(world, ['exec', '-j', 'worker', ...at, '--', 'echo begun; sleep 704'], {
      env: { KUBECONFIG: kubeconfig },
      withinMs: 120_000,
    });
    await cut.prints('begun', 60_000);
    line.cut();
    const ended = await cut.ended;
    assert.equal(ended.code, 255, ended.stderr);
    assert.match(ended.stderr, /the line was cut .*; it was ended over another one/);
    await gone('sleep 704');
  });

  test('of several pods is run in each, and told by their numbers', async (t) => {
    const p = place(t);
    if (p === undefined) return;
    const { ask, at, run } = p;
    await run('many', waits, ['--parallelism', '3'], 3);
    const all = await ask(['exec', 'many', ...at, '--', 'echo "pod $JOB_COMPLETION_INDEX"']);
    assert.deepEqual(all.stdout.trim().split('\n').toSorted(), ['[0] pod 0', '[1] pod 1', '[2] pod 2'], all.stderr);
    const one = await ask(['exec', 'many', ...at, '--pod', '1', '--', 'echo "pod $JOB_COMPLETION_INDEX"']);
    assert.equal(one.stdout, 'pod 1\n');
    const two = await ask(['exec', 'many', ...at, '-w', '0,2', '--', 'exit $((JOB_COMPLETION_INDEX + 4))']);
    assert.equal(two.code, 6, 'the greatest');
    const unclear = await ask(['exec', 'many', ...at, '-i', '--', 'cat']);
    assert.equal(unclear.code, 2);
    assert.match(
      unclear.stderr,
      /--stdin is for one pod, and 3 of many run: 0 \(many-0-\w+\), .*Say which with --pod\./,
    );
    const absent = await ask(['exec', 'many', ...at, '--pod', '7', '--', 'true']);
    assert.equal(absent.code, 3);
  });

  test('needs no shell and no env in the image; then it says that it cannot be ended', async (t) => {
    const p = place(t);
    if (p === undefined) return;
    const { ask, at, begin, run, running } = p;
    // Nothing is found by its name alone, as in an image that holds one program.
    await run('bare', waits, ['--env', 'PATH=/nowhere']);
    const bare = ['exec', '-j', 'bare', ...at];
    assert.equal((await ask([...bare, '--', '/bin/echo', 'a b'])).stdout, 'a b\n');
    assert.equal((await ask([...bare, '--', '/bin/echo one'])).stdout, 'one\n', 'a plain line is its own words');
    assert.equal((await ask([...bare, '-i', '--', '/bin/cat'], 'whole\n')).stdout, 'whole\n');
    const lacking = await ask([...bare, '--', 'echo $HOME']);
    assert.equal(lacking.code, 127);
    assert.match(lacking.stderr, /^sh: the image has no such program$/m);
    const left = begin([...bare, '--', '/bin/sleep', '20']);
    await eventually(() => running('bare').includes('sleep 20'), { withinMs: 30_000 });
    left.child.kill('SIGINT');
    const ended = await left.ended;
    assert.equal(ended.code, 130);
    assert.match(ended.stderr, /it cannot be ended from here, because its image has no shell/);
  });

  test('has this terminal with -it: its keys, its size and its end', async (t) => {
    const p = place(t);
    if (p === undefined || !hasTerminal(t)) return;
    const { at, run, world, kube, running } = p;
    await run('worker', waits);
    const there: World = { ...world, env: { ...world.env, KUBECONFIG: kube.admin } };
    // A terminal has its size a moment after its program has begun.
    const program =
      'until stty size 2>/dev/null | grep .; do sleep 1; done; echo ready; read -r word; trap "echo caught; exit 7" INT; echo "got $word"; sleep 705 & wait';
    const shown = await onTerminal(
      there,
      93,
      ['exec', '-j', 'worker', ...at, '-it', '--', program],
      [
        [/ready/, 'hello\r'],
        [/got hello/, '\u0003'],
      ],
    );
    assert.match(shown.screen, /24 93\r\n(?:.|\r\n)*ready\r\n(?:.|\r\n)*got hello\r\n(?:.|\r\n)*caught\r\n/);
    assert.ok(!shown.screen.includes('\r\r\n'), 'lines end as the program ended them');
    assert.deepEqual([shown.code, shown.kept], [7, true]);
    await eventually(() => !running('worker').includes('sleep 705'), { withinMs: 60_000 });
    const without = await p.ask(['exec', '-j', 'worker', ...at, '-it', '--', 'sh']);
    assert.deepEqual([without.code, /--tty needs a terminal/.test(without.stderr)], [2, true]);
  });
});

suite('submit -it --rm', () => {
  test('is a session with the exit code of its program, and leaves no Job', async (t) => {
    const p = place(t);
    if (p === undefined || !hasTerminal(t)) return;
    const { at, world, kube } = p;
    const there: World = { ...world, env: { ...world.env, KUBECONFIG: kube.admin } };
    const words = ['submit', '-it', '--rm', '-i', 'alpine', '-r', small, '-j', 'session', ...at, '--'];
    // What it said before this terminal was attached is not seen, so it says it until it is answered.
    const program =
      'until echo ready; read -t 1 -r word && [ "$word" = hello ]; do :; done; echo "got $word"; stty size; exit 7';
    const shown = await onTerminal(there, 93, [...words, 'sh', '-c', program], [[/ready/, 'hello\r']]);
    assert.match(shown.screen, /got hello\r\n24 93\r\n/);
    assert.deepEqual([shown.code, shown.kept], [7, true], shown.screen);
    assert.equal(kube.kubectl('get', 'jobs', '-o', 'name'), '');
  });

  test('deletes the Job when it is left before its pod runs', async (t) => {
    const p = place(t);
    if (p === undefined || !hasTerminal(t)) return;
    const { at, world, kube } = p;
    const there: World = { ...world, env: { ...world.env, KUBECONFIG: kube.admin } };
    const words = ['submit', '-it', '--rm', '-i', 'no-such-image:1', '-r', small, '-j', 'left', ...at, '--', 'sh'];
    const shown = await onTerminal(there, 93, words, [[/left cannot get its image/, '\u0003']]);
    assert.equal(shown.code, 130, shown.screen);
    assert.equal(kube.kubectl('get', 'jobs', '-o', 'name'), '');
  });
});

test('a job of another namespace is found by every command without naming the namespace again', async (t) => {
  const p = place(t);
  if (p === undefined) return;
  const { ask, run, world, kube } = p;
  // By the jobs whose logs it keeps jobman knows where jobs are.
  writeFileSync(join(world.home, 'settings.json'), '{}');
  await run('far', waits);
  for (const line of ['why far', 'details -j far', 'logs -j far', 'history far']) {
    const { code, stderr } = await ask(line.split(' '));
    assert.equal(code, 0, `${line}: ${stderr}`);
  }
  assert.equal((await ask(['exec', '-j', 'far', '--', 'echo there'])).stdout, 'there\n');
  assert.match((await ask(['list'])).stderr, new RegExp(`1 job of yours in [^ ]+/${kube.namespace}: `));
  assert.match((await ask(['list', '-A'])).stdout, /^far /m);
  assert.equal((await ask(['delete', '-j', 'far', '--yes'])).code, 0);
  assert.equal(kube.kubectl('get', 'jobs', '-o', 'name'), '');
});

suite('a copy', () => {
  test('to a pod and back is the same, and what is refused ends at once with its reason', async (t) => {
    const p = place(t);
    if (p === undefined) return;
    const { ask, at, run, world } = p;
    await run('copies', waits, ['--workdir', '/tmp']);
    const source = join(world.folder, 'source');
    mkdirSync(join(source, 'sub'), { recursive: true });
    const big = randomBytes(3_000_000);
    writeFileSync(join(source, 'sub/big'), big);
    writeFileSync(join(source, 'a b'), 'two words');
    const copied = await ask(['cp', source, 'copies:data', ...at]);
    assert.equal(copied.code, 0, copied.stderr);
    const listed = await ask(['exec', '-j', 'copies', ...at, '--', 'ls /tmp/data/sub']);
    assert.equal(listed.stdout, 'big\n', 'relative paths start at the working directory');
    const back = await ask(['cp', 'copies:data', join(world.folder, 'back'), ...at]);
    assert.equal(back.code, 0, back.stderr);
    assert.equal(digest(readFileSync(join(world.folder, 'back/sub/big'))), digest(big));
    assert.equal(readFileSync(join(world.folder, 'back/a b'), 'utf8'), 'two words');

    // More than a pipe holds: the program there has ended long before all is sent.
    for (let times = 0; times < 3; times += 1) {
      const nowhere = await ask(['cp', join(source, 'sub/big'), 'copies:/nowhere/big', ...at]);
      assert.equal(nowhere.code, 3);
      assert.match(nowhere.stderr, /there is no folder \/nowhere\nNothing was copied\./);
    }
    const taken = await ask(['cp', join(source, 'sub/big'), 'copies:data/sub/big', ...at]);
    assert.equal(taken.code, 4);
    assert.match(taken.stderr, /\/tmp\/data\/sub\/big is there already; --replace/);
    const missing = await ask(['cp', 'copies:nothing', world.folder, ...at]);
    assert.equal(missing.code, 3);
    assert.match(missing.stderr, /there is no \/tmp\/nothing/);

    await ask(['exec', '-j', 'copies', ...at, '--', 'mkdir x; echo s >x/setuid; chmod 4755 x/setuid; mkfifo x/pipe']);
    const safe = await ask(['cp', 'copies:x', join(world.folder, 'x'), ...at]);
    assert.equal(safe.code, 0, safe.stderr);
    assert.equal(statSync(join(world.folder, 'x/setuid')).mode & 0o7000, 0);
    assert.ok(!existsSync(join(world.folder, 'x/pipe')));
  });
});

suite('a pod that cannot be worked in', () => {
  test('is refused with its phase and the reason', async (t) => {
    const p = place(t);
    if (p === undefined) return;
    const { ask, at, kube } = p;
    const big = '{"name":"big","resources":{"requests":{"cpu":"4000"}}}';
    await ask(['submit', '-q', '-i', 'alpine', '-r', big, '-j', 'waiting', ...at, '--', 'ls']);
    await ask(['submit', '-q', '-i', 'alpine', '-r', small, '-j', 'over', '--follow', ...at, '--', 'true']);
    await ask(['submit', '-q', '-i', 'alpine', '-r', small, '-j', 'held', '--suspend', ...at, '--', 'true']);
    const says = async (code: number, text: RegExp, line: string): Promise<void> => {
      const words = line.split(' ');
      const ended = await ask([...words.slice(0, 3), ...at, ...words.slice(3)]);
      assert.equal(ended.code, code, ended.stderr);
      assert.match(ended.stderr, text);
    };
    const conditions = 'get pods -l job-name=waiting -o jsonpath={.items[*].status.conditions[*].reason}'.split(' ');
    assert.ok(await eventually(() => kube.kubectl(...conditions) === 'Unschedulable'));
    await says(4, /waiting has no pod that runs\. waiting waits for room/, 'exec -j waiting -- ls');
    const pending = /The pod waiting-\w+ is not running: it is Pending\. waiting waits/;
    await says(4, pending, 'exec -j waiting --pod 0 -- ls');
    await says(4, /over has no pod that runs\. over succeeded/, 'exec -j over -- ls');
    await says(4, /held has no pod that runs\. held is suspended/, 'port-forward -j held 8080');
    await says(3, /There is no job called "nobody"/, 'exec -j nobody -- ls');
    await says(2, /Which command\?/, 'exec -j held');
  });
});

test('a program that logs in is enough for both, with the rights that the manual names', async (t) => {
  const p = place(t);
  if (p === undefined) return;
  const { ask, at, run, world, kube } = p;
  await run('worker', waits);
  kube.kubectl('create', 'serviceaccount', 'guest');
  kube.kubectl('create', 'role', 'looks', '--verb=get,list', '--resource=jobs,pods,events');
  kube.kubectl('create', 'role', 'works', '--verb=get,create', '--resource=pods/exec,pods/portforward');
  for (const role of ['looks', 'works']) {
    kube.kubectl('create', 'rolebinding', role, `--role=${role}`, `--serviceaccount=${kube.namespace}:guest`);
  }
  const token = kube.kubectl('create', 'token', 'guest').trim();
  const program = join(world.folder, 'log-in');
  const credential = { apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status: { token } };
  writeFileSync(program, `#!/bin/sh\necho '${JSON.stringify(credential)}'\n`, { mode: 0o700 });
  const kubeconfig = changedKubeconfig(world, kube.admin, ({ users }) => {
    for (const one of users) one.user = { exec: { apiVersion: credential.apiVersion, command: program } };
  });
  const done = await ask(['exec', '-j', 'worker', ...at, '--', 'echo', 'in'], '', kubeconfig);
  assert.deepEqual([done.code, done.stdout], [0, 'in\n'], done.stderr);
  kube.kubectl('delete', 'rolebinding', 'works');
  let refused = await ask(['exec', '-j', 'worker', ...at, '--', 'true'], '', kubeconfig);
  // The cluster notices within a moment.
  for (let turn = 0; turn < 10 && refused.code === 0; turn += 1) {
    refused = await ask(['exec', '-j', 'worker', ...at, '--', 'true'], '', kubeconfig);
  }
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /Could not run a program in worker-.* .*guest may not (get|create) pods\/exec in the namespace .*\n.*Missing is the right/,
  );
});

suite('a forwarded port', () => {
  /** All that comes back for some bytes, whose end is told (`ends`) or not. */
  const talk = (port: number, bytes: string, ends: boolean): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      let text = '';
      socket.setEncoding('latin1').on('data', (part: string) => (text += part));
      socket.on('end', () => {
        socket.end();
        resolve(text);
      });
      socket.on('error', reject);
      if (ends) socket.end(bytes);
      else socket.write(bytes);
    });
  const request = (path: string): string => `GET ${path} HTTP/1.0\r\n\r\n`;
  const portOf = (text: string, there: number): number =>
    Number(new RegExp(`http://127\\.0\\.0\\.1:(\\d+) leads to port ${there} of `).exec(text)?.[1]);

  test('leads to the pod, for many at once, and to the next pod when the first is gone', async (t) => {
    const p = place(t);
    if (p === undefined) return;
    const { at, begin, run, kube } = p;
    const serves = 'mkdir /w; cd /w; hostname >name; head -c 3000000 /dev/zero >big; exec httpd -f -p 8080 -h /w';
    await run('web', serves, ['--backoff-limit', '3']);
    const forward = begin(['port-forward', '-j', 'web', ...at, '0:8080', '0:9']);
    await forward.prints('Only this machine can reach it', 60_000);
    const port = portOf(forward.stdout, 8080);
    const pod = kube.kubectl('get', 'pods', '-l', 'job-name=web', '-o', 'jsonpath={.items[0].metadata.name}');
    assert.ok((await talk(port, request('/name'), false)).endsWith(`\r\n\r\n${pod}\n`));
    assert.ok(
      (await talk(port, request('/name'), true)).endsWith(`\r\n\r\n${pod}\n`),
      'one that has said all is answered',
    );
    const many = await Promise.all(Array.from({ length: 8 }, () => talk(port, request('/big'), false)));
    assert.deepEqual(
      many.map((text) => text.split('\r\n\r\n')[1]?.length),
      many.map(() => 3_000_000),
    );

    const closed = await talk(portOf(forward.stdout, 9), 'x', false).catch(() => '');
    assert.equal(closed, '');
    await forward.prints(/Port 9 of web-\w+: nothing listens there/);

    kube.kubectl('delete', 'pod', pod, '--grace-period=1');
    await forward.prints(/web is connected to its pod web-(?!.*gone)/, 90_000);
    const runs = 'get pods -l job-name=web --field-selector status.phase=Running -o jsonpath={.items[0].metadata.name}';
    const next = kube.kubectl(...runs.split(' '));
    assert.notEqual(next, pod);
    let answer = '';
    // It runs, and its program may need another moment before it listens.
    await eventually(
      async () => (answer = await talk(port, request('/name'), false).catch(() => '')).endsWith(`${next}\n`),
      {
        withinMs: 30_000,
      },
    );
    assert.ok(answer.endsWith(`\r\n\r\n${next}\n`), answer);
    forward.child.kill('SIGINT');
    assert.equal((await forward.ended).code, 130);
    await assert.rejects(talk(port, request('/name'), false));
  });

  test('outlives the line to the cluster: what went over it ends, and the next connection is a new one', async (t) => {
    const p = place(t);
    if (p === undefined) return;
    const { at, run, kube, world } = p;
    await run('web', 'mkdir /w; cd /w; echo hello >name; exec httpd -f -p 8080 -h /w');
    const line = await openCutLine(world, serverOf(world, kube), 3_600_000);
    const kubeconfig = changedKubeconfig(world, kube.admin, (config) => {
      for (const { cluster } of config.clusters) cluster['server'] = line.url;
    });
    const forward = startJobman(world, ['port-forward', '-j', 'web', ...at, '0:8080'], {
      env: { KUBECONFIG: kubeconfig },
      withinMs: 120_000,
    });
    await forward.prints('leads to port 8080', 60_000);
    const port = portOf(forward.stdout, 8080);
    const answered = async (): Promise<boolean> =>
      (await talk(port, request('/name'), false).catch(() => '')).endsWith('\r\n\r\nhello\n');
    assert.ok(await eventually(answered, { withinMs: 30_000 }));
    // It says nothing, and nobody answers it: it stands until the line is cut.
    const idle = talk(port, '', false).catch(() => 'broken');
    assert.ok(await answered());
    line.cut();
    assert.ok(['', 'broken'].includes(await idle));
    assert.ok(await eventually(answered, { withinMs: 30_000 }), forward.stderr);
    forward.child.kill('SIGINT');
    assert.equal((await forward.ended).code, 130);
  });

  test('of a job that is over ends, and one that is taken is refused', async (t) => {
    const p = place(t);
    if (p === undefined) return;
    const { ask, at, begin, run, kube } = p;
    await run('web', waits);
    const forward = begin(['port-forward', '-j', 'web', ...at, '0:8080']);
    await forward.prints('leads to port 8080', 60_000);
    const port = portOf(forward.stdout, 8080);
    const taken = await ask(['port-forward', '-j', 'web', ...at, `${port}:8080`]);
    assert.equal(taken.code, 4);
    assert.match(taken.stderr, new RegExp(`Port ${port} of this machine is taken by another program`));
    kube.kubectl('delete', 'job', 'web', '--wait=false');
    const ended = await forward.ended;
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, /web is not in the cluster any more|web has ended/);
  });
});
