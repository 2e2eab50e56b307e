import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { writePrograms } from '../../src/emulator/hosts/programs.ts';
import type { SetupStep } from '../../src/core/model/spec.ts';
import { condaStep, venvStep } from '../../src/setup/environments.ts';
import { dockerStep } from '../../src/setup/docker.ts';
import { filesStep, sshStep } from '../../src/setup/files.ts';
import { gcsfuseStep } from '../../src/setup/gcsfuse.ts';
import type { BucketCache, SshKey } from '../../src/setup/modules.ts';
import { withoutSudo } from '../../src/setup/steps.ts';
import { openHost, type Host } from './shell.ts';

const noCache: BucketCache = { dir: null, flags: [], prepareScript: null };

const pulling = (image: string): SetupStep =>
  dockerStep({ name: 'docker', image, envVars: [], mounts: [], workdir: null, flags: [] });
const mounting = gcsfuseStep({ name: 'gcsfuse', mounts: [{ bucket: 'b-b', path: '~/b', cache: noCache }] });
/** The step that makes `~/v` with that Python. */
const making = (python: string): SetupStep => venvStep({ name: 'venv', folder: '~/v', python, requirements: null });

/** The programs of a host that mounts buckets: a mount is a line of a list, as in the TPU emulator. */
function withGcsfuse(host: Host, installed = true): void {
  const gcsfuse =
    'for last in "$@"; do before=$path; path=$last; done\necho "$before" >"$path/.bucket"\necho "$path" >>"$HOME/mounts"\necho "$@" >>"$HOME/gcsfuse.log"';
  host.program('mountpoint', 'grep -qxF "$2" "$HOME/mounts" 2>/dev/null');
  host.program('fuser', 'exit 1');
  host.program('curl', 'echo key');
  host.program('tee', 'cat >/dev/null');
  host.program(
    'apt-get',
    `echo "$@" >>"$HOME/apt.log"\ncase "$*" in *install*gcsfuse*) cp "$HOME/packages/gcsfuse" "$(dirname "$0")/gcsfuse";; esac`,
  );
  host.write('~/packages/gcsfuse', `#!/bin/sh\n${gcsfuse}\n`, 0o755);
  if (installed) host.program('gcsfuse', gcsfuse);
}

test('files are there afterwards with their bytes, and a change is noticed', (t) => {
  const host = openHost(t);
  const contents = ['one', 'two', ''].map((text) => Buffer.from(text));
  const targets = ['~/exp/a b.txt', join(host.world.folder, 'abs', "it's"), '~/-n'];
  const files = contents.map((content, index) => ({ to: targets[index] ?? '', content, mode: 0o644 }));
  const step = filesStep({ name: 'files', files });
  assert.equal(host.run(step.check ?? '').code, 1);
  assert.deepEqual([host.step(step, contents).code, host.step(step, contents).applied], [0, false]);
  host.write('~/exp/a b.txt', 'changed');
  assert.equal(host.run(step.check ?? '').code, 1);
  assert.match(host.run(step.apply).out, /are not the same as the files that jobman sent/);
});

test('keys get their modes, siblings are let in, and the config of others stays', (t) => {
  const host = openHost(t);
  const key: SshKey = {
    file: 'id_rsa',
    privateKey: { kind: 'job', secret: 'ssh.private_key' },
    publicKey: { file: 'id_rsa.pub', text: 'ssh-rsa KEY\n' },
    isAuthorized: true,
  };
  const odd: SshKey = {
    file: "o'dd key",
    privateKey: { kind: 'named', secret: 'odd' },
    publicKey: null,
    isAuthorized: false,
  };
  const step = sshStep({
    name: 'ssh',
    keys: [key, odd],
    configEntries: ['  Host 10.*\n    User x\n', "Host it's\n  User 100%\n"],
  });
  const ssh = (name: string): string => join(host.home, '.ssh', name);
  host.write('~/.ssh/config', 'Host mine\n  User me\n');
  host.write('~/.ssh/authorized_keys', 'ssh-rsa OTHER');
  for (const round of [1, 2]) {
    assert.equal(host.step(step).code, 0, `round ${round}`);
    assert.equal(readFileSync(ssh('authorized_keys'), 'utf8'), 'ssh-rsa OTHER\nssh-rsa KEY\n');
    assert.equal(readFileSync(ssh('config'), 'utf8'), 'Include ~/.ssh/jobman_config\nHost mine\n  User me\n');
    assert.equal(readFileSync(ssh('jobman_config'), 'utf8'), "Host 10.*\n  User x\n\nHost it's\n  User 100%\n");
  }
  const modes = ['.', 'id_rsa', 'id_rsa.pub', "o'dd key", 'config'].map((name) =>
    (statSync(ssh(name)).mode & 0o777).toString(8),
  );
  assert.deepEqual(modes, ['700', '600', '644', '600', '600']);
});

test('a login key alone writes nothing but the folder', (t) => {
  const host = openHost(t);
  assert.equal(host.step(sshStep({ name: 'ssh', keys: [], configEntries: [] })).code, 0);
  assert.deepEqual(existsSync(join(host.home, '.ssh', 'config')), false);
});

test('a bucket is mounted once, whatever its path is called', (t) => {
  const host = openHost(t);
  withGcsfuse(host);
  const step = gcsfuseStep({
    name: 'gcsfuse',
    mounts: [
      {
        bucket: 'my_bucket',
        path: '~/gcs bucket',
        cache: { ...noCache, dir: '~/c d', prepareScript: 'echo "before $HOME" >"$HOME/before"' },
      },
      { bucket: 'other', path: join(host.world.folder, 'mnt'), cache: noCache },
    ],
  });
  const first = host.step(step);
  assert.equal(first.code, 0, first.out);
  assert.match(first.out, /my_bucket is mounted at .*gcs bucket\.\nother is mounted at/);
  assert.equal(readFileSync(join(host.home, 'gcs bucket', '.bucket'), 'utf8'), 'my_bucket\n');
  assert.equal(readFileSync(join(host.home, 'before'), 'utf8'), `before ${host.home}\n`);
  assert.match(
    readFileSync(join(host.home, 'gcsfuse.log'), 'utf8'),
    new RegExp(`--cache-dir=${host.home}/c d .* my_bucket ${host.home}/gcs bucket\n`),
  );
  assert.equal(host.step(step).applied, false);
  assert.equal(host.run(step.apply).code, 0);
  assert.equal(readFileSync(join(host.home, 'mounts'), 'utf8').split('\n').length, 3, 'two mounts, not four');
});

test('a host of the TPU emulator mounts its folder, and its program writes into the bucket', (t) => {
  const host = openHost(t);
  const cloud = join(host.world.folder, 'cloud');
  const bin = writePrograms(cloud);
  host.write(join(cloud, 'host', 'hostname'), 'w-0');
  const env = { EMULATOR_HOST: join(cloud, 'host'), PATH: `${bin}:${host.world.env['PATH'] ?? ''}` };
  const step = gcsfuseStep({
    name: 'gcsfuse',
    mounts: [
      {
        bucket: 'iris-example',
        path: '~/bucket',
        cache: { ...noCache, dir: '/tmp/c', flags: ['--metadata-cache-ttl-secs=60'] },
      },
    ],
  });
  assert.equal(host.run(step.check ?? '', env).code, 1);
  const applied = host.run(step.apply, env);
  assert.deepEqual([applied.code, applied.out.includes('iris-example is mounted at')], [0, true], applied.out);
  assert.equal(host.run(step.check ?? '', env).code, 0);
  assert.equal(host.run(step.apply, env).code, 0);
  host.write('~/bucket/checkpoint', 'x');
  assert.equal(readFileSync(join(cloud, 'buckets/iris-example/checkpoint'), 'utf8'), 'x');
});

test('gcsfuse is installed if it is missing, after the dpkg lock is free', (t) => {
  const host = openHost(t);
  withGcsfuse(host, false);
  // Another package manager runs during the first two checks.
  host.program('fuser', 'n=$(cat "$HOME/n" 2>/dev/null || echo 0)\necho $((n + 1)) >"$HOME/n"\n[ "$n" -lt 2 ]');
  host.program('sleep', 'echo "slept $1" >>"$HOME/apt.log"');
  const ran = host.step(mounting);
  assert.equal(ran.code, 0, ran.out);
  const log = readFileSync(join(host.home, 'apt.log'), 'utf8');
  assert.match(
    log,
    /^slept 5\nslept 5\n.* update\n.*install -y curl ca-certificates\n.* update\n.*install -y gcsfuse\n$/,
  );
  assert.match(ran.out, /Waiting for another package manager to finish/);
});

test('a bucket that cannot be mounted is reported in one sentence', (t) => {
  const host = openHost(t);
  withGcsfuse(host);
  host.program('gcsfuse', 'echo "bucket not found" >&2; exit 1');
  const ran = host.step(mounting);
  assert.equal(ran.code, 1);
  assert.match(ran.out, /bucket not found\ngcsfuse cannot mount the bucket b-b at .*\/b; see the lines above\./);
  host.write('~/mounts', `${host.home}/b\n`);
  host.program('findmnt', 'echo other-bucket');
  mkdirSync(join(host.home, 'b'), { recursive: true });
  assert.match(host.step(mounting).out, /Another file system is mounted at/);
});

test('an image is pulled unless it is there, with the rights there are', (t) => {
  const host = openHost(t);
  host.program(
    'docker',
    'echo "$@" >>"$HOME/docker.log"\ncase $1 in info) exit 0;; image) [ -e "$HOME/pulled" ];; pull) touch "$HOME/pulled";; esac',
  );
  const step = pulling('reg.io/a:1');
  assert.deepEqual([host.step(step).code, host.step(step).applied], [0, false]);
  assert.match(readFileSync(join(host.home, 'docker.log'), 'utf8'), /pull reg\.io\/a:1/);
});

test('without docker on the host the step says so', (t) => {
  const host = openHost(t);
  host.program('docker', 'echo "Cannot connect to the Docker daemon" >&2; exit 1');
  for (const name of ['systemctl', 'usermod', 'fuser', 'apt-get']) host.program(name, 'exit 0');
  const ran = host.step(pulling('a'));
  assert.equal(ran.code, 1);
  assert.match(ran.out, /^The Docker daemon does not answer on this host: Cannot connect to the Docker daemon$/m);
});

test('a conda environment is made from its file, kept, and brought up to date', (t) => {
  const host = openHost(t);
  host.program(
    'conda',
    `echo "$@" >>"$HOME/conda.log"
case "$1 $2" in
  "env list") cat "$HOME/envs" 2>/dev/null; exit 0 ;;
  "env create") echo "$4 /x" >>"$HOME/envs"; cp "$6" "$HOME/made" ;;
  "env update") cp "$6" "$HOME/made" ;;
  "tos --help") exit 1 ;;
esac`,
  );
  const step = (config: string) => condaStep({ name: 'conda', environment: 'fms', config });
  assert.equal(host.step(step('a: 1\n')).code, 0);
  assert.equal(readFileSync(join(host.home, 'made'), 'utf8'), 'a: 1\n');
  assert.equal(host.step(step('a: 1\n')).applied, false);
  assert.equal(host.step(step('a: 2\n')).applied, true);
  assert.equal(readFileSync(join(host.home, 'made'), 'utf8'), 'a: 2\n');
  assert.match(
    readFileSync(join(host.home, 'conda.log'), 'utf8'),
    /env create -n fms -f .*\n[^]*env update -n fms -f .* --prune/,
  );
  const none = host.step(condaStep({ name: 'conda', environment: 'missing', config: null }));
  assert.deepEqual([none.code, /The conda environment missing does not exist/.test(none.out)], [1, true]);
});

test('a virtual environment is made by the Python that is asked for, once', (t) => {
  const host = openHost(t);
  // Debian's Python without python3-venv: the first try fails, until apt has installed it.
  host.program('fuser', 'exit 1');
  host.program('apt-get', 'echo "$@" >>"$HOME/apt.log"\ncase "$*" in *venv*) touch "$HOME/has-venv";; esac');
  host.program(
    'python3.9',
    `[ -e "$HOME/has-venv" ] || { echo 'ensurepip is not available' >&2; exit 1; }
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho "$@" >>"$HOME/pip.log"\\ncase "$*" in *" -r "*) cp "$5" "$HOME/installed";; esac\\n' >"$3/bin/python"
chmod +x "$3/bin/python"`,
  );
  const step = venvStep({ name: 'venv', folder: '~/venv/my env', python: 'python3.9', requirements: 'jax==0.4\n' });
  const ran = host.step(step);
  assert.equal(ran.code, 0, ran.out);
  assert.match(readFileSync(join(host.home, 'apt.log'), 'utf8'), /install -y python3\.9 python3\.9-venv/);
  assert.equal(readFileSync(join(host.home, 'installed'), 'utf8'), 'jax==0.4\n');
  assert.equal(host.step(step).applied, false);
  // Half an environment, as a killed installation leaves it, is not taken for a whole one.
  writeFileSync(join(host.home, 'venv/my env/.jobman'), '');
  assert.equal(host.step(step).applied, true);
});

test('a Python that not even a package brings is named, with what was tried', (t) => {
  const host = openHost(t);
  host.program('fuser', 'exit 1');
  host.program('apt-get', 'exit 0');
  host.program('python3.9', 'echo "python3.9: not found" >&2; exit 127');
  const ran = host.step(making('python3.9'));
  assert.equal(ran.code, 1);
  assert.match(
    ran.out,
    /python3\.9 cannot create a virtual environment on this host, even with the package python3\.9-venv\.$/m,
  );
});

test('a Python that is not on the host, and that no package brings, is said to be not installed', (t) => {
  const host = openHost(t);
  host.program('fuser', 'exit 1');
  host.program('apt-get', 'echo "E: Unable to locate package python3.99" >&2; exit 100');
  host.program('sleep', 'exit 0');
  const ran = host.step(making('python3.99'));
  assert.equal(ran.code, 1);
  assert.match(ran.out, /^python3\.99 is not installed on this host and not in its package sources\.$/m);
  const path = host.step(making('/opt/no/python'));
  assert.match(path.out, /^\/opt\/no\/python does not exist on this host\.$/m);
});

test("on a person's machine, a step that needs an administrator fails with a sentence", (t) => {
  const host = openHost(t);
  host.program('sudo', 'echo "it was called" >&2');
  host.program('python3.9', 'exit 1');
  const step = withoutSudo(making('python3.9'));
  const ran = host.step(step);
  assert.equal(ran.code, 1);
  assert.match(
    ran.out,
    /^python3\.9 cannot create a virtual environment on this host\. This step requires an administrator, and jobman does not use sudo on your own machine: fuser/m,
  );
  assert.equal(ran.out.includes('it was called'), false);
});

test("on a person's machine, a missing Docker or Python is reported before the command starts", (t) => {
  const host = openHost(t);
  host.program('docker', 'exit 1');
  const docker = host.step(withoutSudo(pulling('a')));
  assert.equal(docker.code, 1);
  assert.match(
    docker.out,
    /^The Docker daemon does not answer on this host, or this user has no permission to use it\. This step requires an administrator, and jobman does not use sudo on your own machine: docker info$/m,
  );
  const venv = host.step(withoutSudo(making('python3.99')));
  assert.equal(venv.code, 1);
  assert.match(venv.out, /^python3\.99 is not installed on this host\. This step requires an administrator/m);
});

test('the scripts are understood by the plain shell as well as by bash', (t) => {
  const host = openHost(t, { shell: 'sh' });
  withGcsfuse(host, false);
  const ran = host.step(mounting);
  assert.equal(ran.code, 0, ran.out);
  const content = Buffer.from('1');
  const files = filesStep({ name: 'files', files: [{ to: '~/x', content, mode: 0o644 }] });
  assert.equal(host.step(files, [content]).code, 0);
  assert.equal(host.step(sshStep({ name: 'ssh', keys: [], configEntries: ['Host a'] })).code, 0);
});
