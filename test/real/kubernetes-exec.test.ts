/** Work in the pods of a real cluster: commands, terminals, copies and forwarded ports. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { suite } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jobmanCommand, type JobmanResult } from '../support/jobman.ts';
import {
  changedKubeconfig,
  withoutLogArchive,
  kubeTest,
  openFlakyProxy,
  tinyFlavor,
  type Kube,
  type ClusterUser,
} from '../support/kube.ts';
import { hasTerminal, runInTerminal } from '../support/run-in-terminal.ts';
import type { World } from '../support/world.ts';

/** Runs longer than every test, and ends at once on SIGTERM. */
const waits = 'trap "exit 0" TERM; /bin/sleep 600 & wait';

/** A user with a job of that program, once that many pods run. */
async function withJob(kube: Kube, name: string, program: string, flags = '', pods = 1): Promise<ClusterUser> {
  const person = kube.adminUser(withoutLogArchive);
  await person.submit(name, program, flags);
  const isThere = () => kube.field('.status.ready', 'job', name) === String(pods);
  assert.ok(await eventually(isThere, { withinMs: 90_000 }), kube.kubectl('get', 'pods', '-o', 'wide'));
  return person;
}

/** The command lines in a pod of that job, read by kubectl. */
const running = (kube: Kube, name: string): string =>
  kube.kubectl('exec', `job/${name}`, '--', '/bin/busybox', 'ps', '-o', 'args');

async function isGone(kube: Kube, name: string, text: string): Promise<void> {
  const isOver = await eventually(() => !running(kube, name).includes(text), { withinMs: 60_000 });
  assert.ok(isOver, running(kube, name));
}

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** That user's world, for commands on a terminal. */
const worldOf = ({ world, env }: ClusterUser): World => ({ ...world, env: { ...world.env, ...env } });

suite('a command in a pod', () => {
  kubeTest('runs unchanged, with its own output, input and exit code', async (kube) => {
    const person = await withJob(kube, 'worker', waits);
    const exec = (...args: readonly string[]): Promise<JobmanResult> => person.run(['exec', '-j', 'worker', ...args]);

    const argv = await exec('--', 'printf', '%s|', 'a b', '$HOME', "it's", '');
    assert.deepEqual([argv.code, argv.stdout, argv.stderr], [0, "a b|$HOME|it's||", '']);
    const line = await exec('--', 'echo out; echo err >&2; exit 3');
    assert.deepEqual([line.code, line.stdout, line.stderr], [3, 'out\n', 'err\n']);
    const absent = await exec('--', 'no-such-program', 'x');
    assert.equal(absent.code, 127);
    assert.match(absent.stderr, /no-such-program/);
    const json = JSON.parse((await exec('--json', '--', 'hostname')).stdout) as { stdout: string; pod: string };
    assert.equal(json.stdout, `${json.pod}\n`);

    // More binary bytes in both directions than all buffers hold.
    const file = join(kube.world.folder, 'bytes');
    const bytes = randomBytes(6_000_000);
    writeFileSync(file, bytes);
    const command = `${jobmanCommand.join(' ')} exec -j worker --stdin --`;
    const sh = (script: string) =>
      execFileSync('sh', ['-c', script], { env: { ...kube.world.env, ...person.env }, encoding: 'utf8' });
    sh(`${command} cat <${file} >${file}.back`);
    assert.equal(digest(readFileSync(`${file}.back`)), digest(bytes));
    // Unread input does not delay the exit code.
    for (const [program, out] of [
      ['exit 7', ''],
      ['head -c 2; echo err >&2; exit 7', 'y\n'],
    ] as const) {
      const stdout = sh(`yes | { ${command} '${program}' 2>${file}.err; echo $?; }`);
      assert.deepEqual([stdout, readFileSync(`${file}.err`, 'utf8')], [`${out}7\n`, out === '' ? '' : 'err\n']);
    }
    const closed = await person.run(['exec', '-j', 'worker', '--stdin', '--', 'cat; echo end'], { input: 'one\n' });
    assert.equal(closed.stdout, 'one\nend\n');
    assert.equal((await exec('--', 'cat; echo end')).stdout, 'end\n', 'without -i its input is empty');
  });

  kubeTest('ends with its caller, including its children', async (kube) => {
    const person = await withJob(kube, 'worker', waits);
    const exec = ['exec', '-j', 'worker'];
    const left = person.start([...exec, '--', 'sleep 701 & echo begun; sleep 702; echo end']);
    await left.waitForOutput('begun', 60_000);
    left.child.kill('SIGINT');
    assert.equal((await left.result).code, 130);
    await isGone(kube, 'worker', 'sleep 70');

    // A program that ignores the signal is killed.
    const deaf = 'trap "" TERM; sleep 703 & while :; do sleep 1; done';
    const stubborn = await person.run([...exec, '--timeout', '2s', '--', deaf]);
    assert.equal(stubborn.code, 124, stubborn.stderr);
    await isGone(kube, 'worker', 'sleep 703');

    // After a lost connection, a new one finds the program.
    const line = await openFlakyProxy(kube);
    const cut = person.withKubeconfig(line.kubeconfig).start([...exec, '--', 'echo begun; sleep 704']);
    await cut.waitForOutput('begun', 60_000);
    line.cutConnections();
    const ended = await cut.result;
    assert.equal(ended.code, 255, ended.stderr);
    assert.match(ended.stderr, /the connection was lost .*; a second connection ended the program/);
    await isGone(kube, 'worker', 'sleep 704');
  });

  kubeTest("of several pods runs in each, and its output has the pods' numbers", async (kube) => {
    const person = await withJob(kube, 'many', waits, '--parallelism 3', 3);
    const echo = 'echo "pod $JOB_COMPLETION_INDEX"';
    const all = await person.output(['exec', 'many', '--', echo]);
    assert.deepEqual(all.trim().split('\n').toSorted(), ['[0] pod 0', '[1] pod 1', '[2] pod 2']);
    assert.equal(await person.output(['exec', 'many', '--pod', '1', '--', echo]), 'pod 1\n');
    const two = await person.run(['exec', 'many', '-w', '0,2', '--', 'exit $((JOB_COMPLETION_INDEX + 4))']);
    assert.equal(two.code, 6, 'the greatest');
    const unclear = /--stdin is for one pod, .* runs on 3 pods \(0 \(many-0-\w+\), .*choose one with --pod\./;
    await person.runRefused(2, unclear, 'exec many --stdin -- cat');
    assert.equal((await person.run('exec many --pod 7 -- true')).code, 3);
  });

  kubeTest('needs no shell and no env in the image; then a message says that it cannot be ended', async (kube) => {
    // PATH finds nothing, as in an image with a single program.
    const person = await withJob(kube, 'bare', waits, '--env PATH=/nowhere');
    const bare = ['exec', '-j', 'bare'];
    assert.equal(await person.output([...bare, '--', '/bin/echo', 'a b']), 'a b\n');
    assert.equal(await person.output([...bare, '--', '/bin/echo one']), 'one\n', 'one plain argument is the command');
    assert.equal(await person.output([...bare, '--stdin', '--', '/bin/cat'], { input: 'whole\n' }), 'whole\n');
    const lacking = await person.run([...bare, '--', 'echo $HOME']);
    assert.equal(lacking.code, 127);
    assert.match(lacking.stderr, /^sh: the image has no such program$/m);
    const left = person.start([...bare, '--', '/bin/sleep', '20']);
    await eventually(() => running(kube, 'bare').includes('sleep 20'), { withinMs: 30_000 });
    left.child.kill('SIGINT');
    const ended = await left.result;
    assert.equal(ended.code, 130);
    assert.match(ended.stderr, /it cannot be stopped, because the image has no shell/);
  });

  kubeTest('has this terminal with -it: its keys, its size and its end', async (kube, t) => {
    if (!hasTerminal(t)) return;
    const person = await withJob(kube, 'worker', waits);
    // A terminal gets its size shortly after its program has started.
    const program =
      'until stty size 2>/dev/null | grep .; do sleep 1; done; echo ready; read -r line; trap "echo caught; exit 7" INT; echo "got $line"; sleep 705 & wait';
    const typed = [
      [/ready/, 'hello\r'],
      [/got hello/, '\u0003'],
    ] as const;
    const shown = await runInTerminal(worldOf(person), 93, ['exec', '-j', 'worker', '-it', '--', program], typed);
    assert.match(shown.screen, /24 93\r\n(?:.|\r\n)*ready\r\n(?:.|\r\n)*got hello\r\n(?:.|\r\n)*caught\r\n/);
    assert.ok(!shown.screen.includes('\r\r\n'), 'lines end as the program ended them');
    assert.deepEqual([shown.code, shown.settingsRestored], [7, true]);
    await isGone(kube, 'worker', 'sleep 705');
    await person.runRefused(2, /--tty needs a terminal/, 'exec -j worker --stdin --tty -- sh');
  });
});

kubeTest('submit -it --rm is a session with the exit code of its program, and leaves no Job', async (kube, t) => {
  if (!hasTerminal(t)) return;
  const world = worldOf(kube.adminUser(withoutLogArchive));
  const submit = ['submit', '-it', '--rm', '-r', tinyFlavor, '-i'];
  // Output before the terminal is attached is not shown, so the program repeats it until it gets input.
  const program =
    'until echo ready; read -t 1 -r line && [ "$line" = hello ]; do :; done; echo "got $line"; stty size; exit 7';
  const args = [...submit, 'alpine', '--', 'sh', '-c', program];
  const shown = await runInTerminal(world, 93, args, [[/ready/, 'hello\r']]);
  assert.match(shown.screen, /got hello\r\n24 93\r\n/);
  assert.deepEqual([shown.code, shown.settingsRestored], [7, true], shown.screen);
  assert.equal(kube.jobs(), '');

  // Leave before the pod runs.
  const nowhere = [...submit, 'no-such-image:1', '-j', 'left', '--', 'sh'];
  const left = await runInTerminal(world, 93, nowhere, [[/left cannot pull its image/, '\u0003']]);
  assert.equal(left.code, 130, left.screen);
  assert.equal(kube.jobs(), '');
});

kubeTest('a job of another namespace is found by every command without its namespace', async (kube) => {
  // jobman knows the namespaces of the jobs whose logs it archives.
  const person = kube.adminUser({ kubeconfig: kube.admin });
  await person.submit('far', waits, `--namespace ${kube.namespace}`);
  const isThere = () => kube.field('.status.ready', 'job', 'far') === '1';
  assert.ok(await eventually(isThere, { withinMs: 90_000 }));
  for (const line of ['why far', 'details -j far', 'logs -j far', 'history far']) await person.output(line);
  assert.equal(await person.output('exec -j far -- echo there'), 'there\n');
  assert.match((await person.run('list')).stderr, new RegExp(`you have 1 job in [^ ]+/${kube.namespace}: `));
  assert.match(await person.output('list -A'), /^far /m);
  await person.output('delete -j far --yes');
  assert.equal(kube.jobs(), '');
});

kubeTest('a copy to a pod and back is identical, and a refused copy ends at once with its reason', async (kube) => {
  const person = await withJob(kube, 'copies', waits, '--workdir /tmp');
  const { folder } = kube.world;
  const source = join(folder, 'source');
  mkdirSync(join(source, 'sub'), { recursive: true });
  const big = randomBytes(3_000_000);
  writeFileSync(join(source, 'sub/big'), big);
  writeFileSync(join(source, 'a b'), 'two words');
  await person.output(`cp ${source} copies:data`);
  const listed = await person.output('exec -j copies -- ls /tmp/data/sub');
  assert.equal(listed, 'big\n', 'relative paths start at the working directory');
  await person.output(`cp copies:data ${folder}/back`);
  assert.equal(digest(readFileSync(join(folder, 'back/sub/big'))), digest(big));
  assert.equal(readFileSync(join(folder, 'back/a b'), 'utf8'), 'two words');

  // More than a pipe holds: the remote program ends long before everything is sent.
  for (let times = 0; times < 3; times += 1) {
    const nowhere = await person.run(`cp ${source}/sub/big copies:/nowhere/big`);
    assert.equal(nowhere.code, 3);
    assert.match(nowhere.stderr, /the folder \/nowhere does not exist\nNothing was copied\./);
  }
  const taken = await person.run(`cp ${source}/sub/big copies:data/sub/big`);
  assert.equal(taken.code, 4);
  assert.match(taken.stderr, /\/tmp\/data\/sub\/big exists; --replace/);
  const missing = await person.run(`cp copies:nothing ${folder}`);
  assert.equal(missing.code, 3);
  assert.match(missing.stderr, /\/tmp\/nothing does not exist/);

  await person.output([
    ...'exec -j copies --'.split(' '),
    'mkdir x; echo s >x/setuid; chmod 4755 x/setuid; mkfifo x/pipe',
  ]);
  await person.output(`cp copies:x ${folder}/x`);
  assert.equal(statSync(join(folder, 'x/setuid')).mode & 0o7000, 0);
  assert.ok(!existsSync(join(folder, 'x/pipe')));
});

kubeTest('a pod without running containers is refused with its phase and the reason', async (kube) => {
  const person = kube.adminUser(withoutLogArchive);
  const big = '{"name":"big","resources":{"requests":{"cpu":"4000"}}}';
  await person.output(['submit', '-q', '-i', 'alpine', '-r', big, '-j', 'waiting', '--', 'ls']);
  await person.submit('over', 'true', '--follow');
  await person.submit('held', 'true', '--suspend');
  const reason = () => kube.field('.items[*].status.conditions[*].reason', 'pods', '-l', 'job-name=waiting');
  assert.ok(await eventually(() => reason() === 'Unschedulable'));
  const cases: readonly (readonly [number, RegExp, string])[] = [
    [4, /waiting has no running pod\. Job waiting waits for room/, 'exec -j waiting -- ls'],
    [4, /The pod waiting-\w+ is not running: it is Pending\. Job waiting waits/, 'exec -j waiting --pod 0 -- ls'],
    [4, /over has no running pod\. Job over succeeded/, 'exec -j over -- ls'],
    [4, /held has no running pod\. Job held is suspended/, 'port-forward -j held 8080'],
    [3, /There is no job named "missing"/, 'exec -j missing -- ls'],
    [2, /Which command\?/, 'exec -j held'],
  ];
  for (const [code, message, line] of cases) await person.runRefused(code, message, line);
});

kubeTest('a login program is enough for both, with the permissions of the manual', async (kube) => {
  const person = await withJob(kube, 'worker', waits);
  kube.kubectl('create', 'serviceaccount', 'guest');
  kube.kubectl('create', 'role', 'checks', '--verb=get,list', '--resource=jobs,pods,events');
  kube.kubectl('create', 'role', 'works', '--verb=get,create', '--resource=pods/exec,pods/portforward');
  for (const role of ['checks', 'works']) {
    kube.kubectl('create', 'rolebinding', role, `--role=${role}`, `--serviceaccount=${kube.namespace}:guest`);
  }
  const token = kube.kubectl('create', 'token', 'guest').trim();
  const program = join(kube.world.folder, 'log-in');
  const credential = { apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status: { token } };
  writeFileSync(program, `#!/bin/sh\necho '${JSON.stringify(credential)}'\n`, { mode: 0o700 });
  const guest = person.withKubeconfig(
    changedKubeconfig(kube.world, person.kubeconfig, ({ users }) => {
      for (const one of users) one.user = { exec: { apiVersion: credential.apiVersion, command: program } };
    }),
  );
  assert.equal(await guest.output('exec -j worker -- echo in'), 'in\n');
  kube.kubectl('delete', 'rolebinding', 'works');
  let refused = await guest.run('exec -j worker -- true');
  // The cluster notices shortly after.
  for (let turn = 0; turn < 10 && refused.code === 0; turn += 1) refused = await guest.run('exec -j worker -- true');
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /Could not run a program in worker-.* .*guest may not (get|create) pods\/exec in the namespace .*\n.*is missing; the administrator/,
  );
});

suite('a forwarded port', () => {
  /** The response to some bytes, with (`ends`) or without an end of the input. */
  const talk = (port: number, bytes: string, ends = false): Promise<string> =>
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
  const askFor = (port: number, path: string, ends = false) => talk(port, `GET ${path} HTTP/1.0\r\n\r\n`, ends);
  const portOf = (text: string, there = 8080): number =>
    Number(new RegExp(`http://127\\.0\\.0\\.1:(\\d+) forwards to port ${there} of `).exec(text)?.[1]);
  const soon = { withinMs: 30_000 };

  kubeTest(
    'leads to the pod, for many connections at once, and to the next pod after the first has ended',
    async (kube) => {
      const serves = 'mkdir /w; cd /w; hostname >name; head -c 3000000 /dev/zero >big; exec httpd -f -p 8080 -h /w';
      const person = await withJob(kube, 'web', serves, '--backoff-limit 3');
      const forward = person.start('port-forward -j web 0:8080 0:9');
      await forward.waitForOutput('Only this machine can connect', 60_000);
      const port = portOf(forward.stdout);
      const pod = kube.field('.items[0].metadata.name', 'pods', '-l', 'job-name=web');
      for (const ends of [false, true]) {
        assert.ok(
          (await askFor(port, '/name', ends)).endsWith(`\r\n\r\n${pod}\n`),
          'a client that has closed its side is answered',
        );
      }
      const many = await Promise.all(Array.from({ length: 8 }, () => askFor(port, '/big')));
      for (const text of many) assert.equal(text.split('\r\n\r\n')[1]?.length, 3_000_000);

      assert.equal(await talk(portOf(forward.stdout, 9), 'x').catch(() => ''), '');
      await forward.waitForOutput(/Port 9 of web: no program listens on the port/);

      kube.kubectl('delete', 'pod', pod, '--grace-period=1');
      await forward.waitForOutput(/web has moved: forwarding to pod web-(?!.*gone)/, 90_000);
      const runs = ['pods', '-l', 'job-name=web', '--field-selector', 'status.phase=Running'];
      const next = kube.field('.items[0].metadata.name', ...runs);
      assert.notEqual(next, pod);
      let answer = '';
      // The pod runs; its program may need more time until it listens.
      const isNext = async () => (answer = await askFor(port, '/name').catch(() => '')).endsWith(`\r\n\r\n${next}\n`);
      assert.ok(await eventually(isNext, soon), answer);
      forward.child.kill('SIGINT');
      assert.equal((await forward.result).code, 130);
      await assert.rejects(askFor(port, '/name'));
    },
  );

  kubeTest('survives the connection to the cluster: the next client uses a new one', async (kube) => {
    const person = await withJob(kube, 'web', 'mkdir /w; cd /w; echo hello >name; exec httpd -f -p 8080 -h /w');
    const line = await openFlakyProxy(kube);
    const forward = person.withKubeconfig(line.kubeconfig).start('port-forward -j web 0:8080');
    await forward.waitForOutput('forwards to port 8080', 60_000);
    const port = portOf(forward.stdout);
    const answered = async () => (await askFor(port, '/name').catch(() => '')).endsWith('\r\n\r\nhello\n');
    assert.ok(await eventually(answered, soon));
    // Silent on both sides, so the connection stays open until it is cut.
    const idle = talk(port, '').catch(() => 'broken');
    assert.ok(await answered());
    line.cutConnections();
    assert.ok(['', 'broken'].includes(await idle));
    assert.ok(await eventually(answered, soon), forward.stderr);
    forward.child.kill('SIGINT');
    assert.equal((await forward.result).code, 130);
  });

  kubeTest('of a finished job ends, and a used port is refused', async (kube) => {
    const person = await withJob(kube, 'web', waits);
    const forward = person.start('port-forward -j web 0:8080');
    await forward.waitForOutput('forwards to port 8080', 60_000);
    const port = portOf(forward.stdout);
    const message = new RegExp(`Port ${port} on this machine is taken by another program`);
    await person.runRefused(4, message, `port-forward -j web ${port}:8080`);
    kube.kubectl('delete', 'job', 'web', '--wait=false');
    const ended = await forward.result;
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, /web was deleted meanwhile|web has finished/);
  });
});
