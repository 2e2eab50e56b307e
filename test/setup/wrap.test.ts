import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { CondaModule, DockerModule, VariableNames, VenvModule } from '../../src/setup/modules.ts';
import { wrapCommand } from '../../src/setup/steps.ts';
import { eventually } from '../support/eventually.ts';
import { openHost, type Host } from './shell.ts';

const docker: DockerModule = {
  name: 'docker',
  image: 'img:1',
  envVars: ['HOME=/home/zephyr', "QUOTED=it's $HOME", 'HANDED_ON'],
  mounts: ['/data', '~/b c:/bucket:ro'],
  workdir: '/w d',
  flags: ['--privileged', '--label=a b'],
};
const conda: CondaModule = { name: 'conda', environment: 'fms', config: null };
const venv: VenvModule = { name: 'venv', folder: '~/venv/x', python: 'python3', requirements: null };

/** These variables of the command, none of them secret. */
const named = (...plain: readonly string[]): VariableNames => ({ plain, secret: [] });

/** A command that would break if any shell read it a second time. */
const nasty = `cat <<'END'
"double" 'single' \`back\` $HOME \${HOME} \\ $(echo no) %s !
END
JOBMAN_END=kept
echo "$JOBMAN_END \${VALUE}"
exit 7
`;
const printed = '"double" \'single\' `back` $HOME ${HOME} \\ $(echo no) %s !\n';

/**
 * A docker whose containers are processes here. The client hands its arguments down and ends what is left in the container
 * when its main process has ended; of what the client has open the container gets nothing. Mounts of /jobman are copies,
 * or links if they are not read-only, whose paths are put in place of the ones inside.
 */
const fakeDocker = `#!/usr/bin/env python3
import os, shutil, signal, subprocess, sys
home, args = os.environ["HOME"], sys.argv[1:]
if args[0] == "info": sys.exit(0)
if args[0] == "ps":
    path = os.path.join(home, "left")
    sys.exit(print(open(path).read(), end="") if os.path.exists(path) else 0)
if args[0] == "rm":
    sys.exit(print(*args, file=open(os.path.join(home, "removed"), "a")))
open(os.path.join(home, "argv"), "w").write("\\n".join(args) + "\\n")
inside = os.path.join(home, "jobman") + "/"
os.makedirs(inside, exist_ok=True)
for arg in args:
    if arg.startswith("type=bind,source="):
        source, target = arg[len("type=bind,source="):].split(",target=/jobman/")
        target = inside + target.split(",")[0]
        if os.path.lexists(target): os.remove(target)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if arg.endswith(",readonly"): shutil.copy(source, target)
        else: os.symlink(source, target)
text = open(inside + "inside").read().replace("/jobman/", inside)
open(inside + "inside", "w").write(text)
container = subprocess.Popen(["sh", inside + "inside"], stdin=subprocess.DEVNULL, start_new_session=True,
    env={"PATH": os.environ["PATH"], "JOBMAN_TEST": os.environ.get("JOBMAN_TEST", ""), "IMAGE": "own"})
open(os.path.join(home, "client"), "w").write(str(os.getpid()))
signal.signal(signal.SIGTERM, lambda number, frame: os.killpg(container.pid, number))
code = container.wait()
try: os.killpg(container.pid, signal.SIGKILL)
except ProcessLookupError: pass
sys.exit(code if code >= 0 else 128 - code)
`;

function withDocker(host: Host): void {
  host.write(join(host.world.folder, 'bin/docker'), fakeDocker, 0o755);
}

test('without an environment the script is the script', () => {
  assert.equal(wrapCommand('ls', [], named()), 'ls');
});

test('in a container the command is a file, its variables are a file, and its exit code is its own', (t) => {
  const host = openHost(t);
  withDocker(host);
  host.write('~/left', 'abc123\n');
  const script = wrapCommand(nasty, [docker], named('VALUE', 'LINES'));
  const ran = host.run(script, {
    VALUE: "a 'quoted'\n\\value\\",
    LINES: 'TPU_FAKE=1',
    TPU_NAME: 'node',
    JOBMAN_RUN: 'inst/000001/2/0',
    HANDED_ON: 'yes',
    OTHER: 'no',
  });
  assert.deepEqual(ran, { code: 7, out: `${printed}kept a 'quoted'\n\\value\\\n` });
  const argv = readFileSync(join(host.home, 'argv'), 'utf8');
  assert.match(
    argv,
    /--volume\n\/data:\/data\n--volume\n.*\/user\/b c:\/bucket:ro\n--workdir\n\/w d\n--privileged\n--label=a b\nimg:1\nsh\n\/jobman\/inside\n$/,
  );
  assert.match(argv, /--label\njobman-run=inst\/000001\n/);
  assert.equal(argv.includes('quoted'), false, 'no variable is shown in the list of processes');
  assert.equal(readFileSync(join(host.home, 'removed'), 'utf8'), 'rm --force abc123\n');
});

test('the container gets the variables of the job, of jobman and of the TPU, and no others', (t) => {
  const host = openHost(t);
  withDocker(host);
  const ran = host.run(wrapCommand('env', [docker], named('VALUE')), {
    VALUE: 'v',
    TPU_NAME: 'node',
    JOBMAN_WORKER: '3',
    HANDED_ON: 'yes',
    OTHER: 'no',
  });
  const names = ran.out.split('\n').map((line) => line.split('=')[0]);
  for (const name of ['VALUE', 'TPU_NAME', 'JOBMAN_WORKER', 'HANDED_ON', 'IMAGE'])
    assert.ok(names.includes(name), `${name}\n${ran.out}`);
  assert.equal(names.includes('OTHER'), false);
  assert.match(ran.out, /^HOME=\/home\/zephyr$/m);
  assert.match(ran.out, /^QUOTED=it's \$HOME$/m);
});

test('exec --in-container finds the variables of docker.env_vars in the file of variables', (t) => {
  const host = openHost(t);
  withDocker(host);
  const envVars = ['HOME=/home/zephyr', "QUOTED=it's $HOME", 'VALUE=of the container', 'HANDED_ON', 'LINES=a\nb'];
  // As exec --in-container does it, with the copy of the file that the container sees.
  const script = '. "$HOME_OF_TEST/jobman/variables"; printf "%s|" "$HOME" "$QUOTED" "$VALUE" "$HANDED_ON" "$LINES"';
  const ran = host.run(wrapCommand('env', [{ ...docker, envVars }], named('VALUE')), { VALUE: 'v', HANDED_ON: 'yes' });
  assert.equal(ran.code, 0, ran.out);
  assert.match(ran.out, /^VALUE=of the container$/m);
  const entered = host.run(script, { HOME_OF_TEST: host.home });
  assert.equal(entered.out, "/home/zephyr|it's $HOME|of the container|yes|a\nb|");
});

test('a script that names its interpreter gets it, also in a container', (t) => {
  const host = openHost(t);
  withDocker(host);
  const script = '#!/usr/bin/env python3\nprint("from python")\n';
  assert.deepEqual(host.run(wrapCommand(script, [docker], named())), { code: 0, out: 'from python\n' });
});

test('a conda environment runs the command as a file', (t) => {
  const host = openHost(t);
  host.program('conda', 'echo "$1 $2 $3 $4"; shift 4; exec "$@"');
  assert.deepEqual(host.run(wrapCommand(nasty, [conda], named()), { VALUE: 'v' }), {
    code: 7,
    out: `run --no-capture-output -n fms\n${printed}kept v\n`,
  });
});

test('a virtual environment runs the command as a file', (t) => {
  const host = openHost(t);
  mkdirSync(join(host.home, 'venv/x/bin'), { recursive: true });
  writeFileSync(join(host.home, 'venv/x/bin/activate'), 'export VALUE=activated\n');
  assert.deepEqual(host.run(wrapCommand(nasty, [venv], named())), { code: 7, out: `${printed}kept activated\n` });
});

test('a missing environment is reported before anything runs', (t) => {
  const host = openHost(t);
  const ran = host.run(wrapCommand('echo ran', [venv], named()));
  assert.equal(ran.out.includes('ran\n'), false);
  assert.notEqual(ran.code, 0);
});

test('an environment inside a container is made there once', (t) => {
  const host = openHost(t);
  withDocker(host);
  // Inside, python3.9 creates a virtual environment with the parts that the test checks.
  host.program(
    'python3.9',
    `[ "$1" = -m ] || exit 9\necho making\nmkdir -p "$3/bin"\necho 'export VALUE=inside' >"$3/bin/activate"\nprintf '#!/bin/sh\\n' >"$3/bin/python"\nchmod +x "$3/bin/python"`,
  );
  const folder = join(host.world.folder, 'inner');
  const script = wrapCommand(
    'echo "$VALUE"',
    [
      { ...docker, envVars: [] },
      { ...venv, folder, python: 'python3.9' },
    ],
    named(),
  );
  assert.deepEqual(host.run(script), { code: 0, out: 'making\ninside\n' });
  assert.deepEqual(host.run(script), { code: 0, out: 'inside\n' });
});

test('when the client of docker is killed, everything of the run inside the container ends', async (t) => {
  const host = openHost(t, { patienceMs: 10_000 });
  withDocker(host);
  const script = wrapCommand('trap "" TERM; sleep 1000 & echo $! $$ >"$STARTED"; wait', [docker], named('STARTED'));
  const started = join(host.home, 'started');
  const ended = host.start(script, { JOBMAN_RUN: `${host.home}/000001/1/0`, STARTED: started });
  assert.ok(
    await eventually(() => existsSync(started) && readFileSync(started, 'utf8').endsWith('\n'), { withinMs: 10_000 }),
  );
  const inside = readFileSync(started, 'utf8').trim().split(' ').map(Number);
  process.kill(Number(readFileSync(join(host.home, 'client'), 'utf8')), 'SIGKILL');
  await ended;
  assert.ok(
    await eventually(() => inside.every((pid) => !existsSync(`/proc/${pid}`)), { withinMs: 10_000 }),
    'they kept running',
  );
});

test('a signal for the client of docker reaches the program, and its exit code comes back', async (t) => {
  const host = openHost(t);
  withDocker(host);
  const started = join(host.home, 'started');
  const script = wrapCommand(
    'trap "echo saved; exit 3" TERM; : >"$STARTED"; while :; do sleep 0.1; done',
    [docker],
    named('STARTED'),
  );
  const ended = host.start(script, { STARTED: started });
  assert.ok(await eventually(() => existsSync(started), { withinMs: 10_000 }));
  process.kill(Number(readFileSync(join(host.home, 'client'), 'utf8')), 'SIGTERM');
  const { code, out } = await ended;
  assert.equal(code, 3);
  assert.match(out, /saved\n$/);
});

test('without a daemon that answers, the command says so and does not run', (t) => {
  const host = openHost(t);
  host.program('docker', 'exit 1');
  host.program('sg', 'exit 1');
  const ran = host.run(wrapCommand('echo ran', [docker], named()));
  assert.equal(ran.code, 125);
  assert.match(
    ran.out,
    /^The Docker daemon does not answer on this host, or this user has no permission to use it\.\n$/,
  );
});

test('a login that began before its user joined the group docker still gets there', (t) => {
  const host = openHost(t);
  withDocker(host);
  host.write('~/inner', readFileSync(join(host.world.folder, 'bin/docker')), 0o755);
  host.program('docker', '[ -n "$MEMBER" ] || exit 1\nexec "$HOME/inner" "$@"');
  host.program('sg', '[ "$1 $2" = "docker -c" ] || exit 9\nMEMBER=1 exec sh -c "$3"');
  assert.deepEqual(host.run(wrapCommand('echo here', [docker], named())), { code: 0, out: 'here\n' });
});

test("a secret reaches only the program in a container, not the docker client's files, arguments or variables", (t) => {
  const host = openHost(t);
  withDocker(host);
  const secret = "it's $HOME `x`\n two lines ";
  const names: VariableNames = { plain: ['VALUE'], secret: ['API_KEY', 'TPU_TOKEN'] };
  const script = wrapCommand('printf "%s|" "$API_KEY" "$TPU_TOKEN" "$VALUE"; cat', [docker], names);
  const ran = host.run(script, { API_KEY: secret, TPU_TOKEN: 'hidden-too', VALUE: 'v' });
  assert.deepEqual(ran, { code: 0, out: `${secret}|hidden-too|v|` });
  const left = spawnSync('grep', ['-rls', '-e', 'two lines', '-e', 'hidden-too', host.world.folder]);
  assert.equal(left.stdout.toString(), '');
});
