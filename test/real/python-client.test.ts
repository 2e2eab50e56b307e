/** The Python package's client against a real server, as a program of a user. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { jobman, startJobman } from '../support/jobman.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

const program = `
import json, os, jobman
from jobman.client import ForbiddenError, NotFoundError, UsageError, _Named
from pathlib import Path

server = jobman.connect()
shown = {"user": server.who_am_i()["role"]}
made = server.create_from("train.yaml", sets=["job.name=flower"])
shown["created"] = [made["id"], made["row"]["name"], made["warnings"]]
shown["output"] = b"".join(chunk.bytes for chunk in server.follow_logs(made["id"])).decode()
shown["phase"] = server.wait(made["id"])["phase"]
shown["last event"] = server.events(made["id"], 0)[-1]["event"]["kind"]
server.send_command(made["id"], "rerun", {})
for change in server.changes_since(jobs=[made["id"]]):
    shown["change"] = sorted(change)
    break
server.wait(made["id"])
second = server.create_from("train.yaml", start=False)["id"]
shown["pages"] = [row["id"] for row in server.jobs(page_size=1)]
shown["rest"] = server.list(limit=1, cursor=server.list(limit=1)["next"], name="flower")["rows"][0]["id"]

def error(call):
    try:
        call()
    except jobman.JobmanError as failed:
        return [type(failed).__name__, failed.message, failed.exit_code, len(failed.problems)]

shown["confirmation"] = issubclass(jobman.ConfirmationRequired, jobman.JobmanError)
limits = dict.fromkeys(["chips", "usdPerDay", "projects", "clusters", "hosts", "tokens", "filesMib"])
server.change_user("root", {"kind": "limits", "limits": {**limits, "jobs": 0}})
shown["limit"] = error(lambda: server.create_from("train.yaml"))
shown["absent"] = error(lambda: server.show("77"))
shown["wrong"] = error(lambda: server.create_from("wrong.yaml"))
shown["copied"] = error(lambda: server.create_from("copied.yaml"))
shown["token"] = error(lambda: jobman.connect(token="jobman_x").who_am_i())
shown["down"] = error(lambda: jobman.connect("http://127.0.0.1:1", "x").who_am_i())[::2]
shown["clear text"] = error(lambda: jobman.connect("http://example.org", "x"))[::2]
shown["ca"] = error(lambda: jobman.connect("https://example.org", "x", ca="absent.pem"))
named = _Named("files: [data/a.txt, ~/b]", Path.cwd())
shown["refused"] = [
    error(lambda path=path: named.describe(path)) is not None
    for path in (str(Path.cwd() / "data/a.txt"), str(Path.home() / "b"), str(Path.home() / ".ssh/id"), "/etc/passwd")
]
print(json.dumps(shown))
`;

const notShared = 'has no effect without job.checkpoint_dir';

test('a Python program creates a job with files, follows it, and gets errors as exceptions', async (t) => {
  const python = findProgram('python3');
  if (!requireReal(t, 'python3', python) || python === undefined) return;
  const world = openWorld(t, { patienceMs: 20_000 });
  const served = { JOBMAN_HOME: join(world.folder, 'served') };
  const { stdout: token } = await jobman(world, ['token', 'create', '--name', 'python'], { env: served });
  const server = startJobman(world, ['server', '--listen', '127.0.0.1:0'], { env: served });
  await server.waitForOutput(/The server runs at \S+\./);
  const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
  const write = (name: string, text: string) => writeFileSync(join(world.folder, name), text);
  write('token.txt', 'a-secret\n');
  write(
    'train.yaml',
    'job: {name: iris, secrets: {TOKEN: token.txt}, env: {GREETING: "${oc.env:GREETING}"}, checkpoint_shared: true}\nlocal: {}\n' +
      'command: {cmd: "echo $GREETING $TOKEN"}\n',
  );
  write('wrong.yaml', 'local: {}\ncommand: {cmd: ls}\njob: {nam: a, max_runtime: -1}\n');
  write('copied.yaml', 'local: {}\ncommand: {cmd: ls}\njob: {workdir: .}\n');
  const { status, stdout, stderr } = spawnSync(python, ['-W', 'error', '-c', program], {
    cwd: world.folder,
    encoding: 'utf8',
    env: {
      ...world.env,
      PYTHONPATH: join(root, 'python'),
      PYTHONDONTWRITEBYTECODE: '1',
      JOBMAN_SERVER: url,
      JOBMAN_TOKEN: token.trim(),
      GREETING: 'hello',
    },
  });
  assert.equal(status, 0, stderr);
  assert.deepEqual(JSON.parse(stdout), {
    user: 'admin',
    created: ['000001', 'flower', [`train.yaml:1:106: job.checkpoint_shared: ${notShared}`]],
    output: 'hello a-secret\n',
    phase: 'succeeded',
    'last event': 'finished',
    change: ['cursor', 'kind'],
    pages: ['000002', '000001'],
    rest: '000001',
    confirmation: true,
    limit: ['ConflictError', 'Nothing was created: root has 1 unfinished job, and 0 are allowed.', 4, 0],
    absent: ['NotFoundError', 'There is no job 000077. List all jobs: jobman list --all', 3, 0],
    wrong: ['UsageError', 'The manifest has 2 problems.', 2, 2],
    copied: ['UsageError', 'The manifest has 1 problem.', 2, 1],
    token: [
      'ForbiddenError',
      'The server does not accept this token: it is unknown, has expired or was revoked.',
      4,
      0,
    ],
    down: ['UnreachableError', 5],
    'clear text': ['UsageError', 2],
    ca: ['UsageError', 'The certificates absent.pem cannot be used: [Errno 2] No such file or directory.', 2, 0],
    refused: [false, false, true, true],
  });
  server.child.kill('SIGTERM');
  await server.result;
});
