import { command, grouped } from '../command.ts';
import { setupSteps } from '../completion/proposals.ts';
import { boolFlag, valueFlag, stringFlag } from '../flags.ts';
import { parseAddress, parseCount, parseDuration, parseWorkers } from '../parse.ts';
import { jobName, jobs, contextFlags } from './flags.ts';

export const work = grouped('Work on it', [
  command({
    names: ['run'],
    summary: 'Do now, in the foreground, what is left to do for a job',
    usage: '<job> [--cmd-only]',
    examples: [
      ['jobman run 42', 'ask for capacity, set up, run'],
      ['jobman run 42 --cmd-only', 'just the command, on workers that are ready'],
    ],
    exitCodes: { 0: 'the job succeeded', 1: 'it failed, was stopped or was cancelled' },
    flags: { cmdOnly: boolFlag('Skip capacity and setup'), jobName },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).runJob,
  }),
  command({
    names: ['ssh'],
    summary: 'A shell on a worker',
    usage: '<job> [--worker n] [-- command...]',
    about:
      "The system's own ssh, on this terminal. For many workers at once: jobman exec. For an editor: jobman ssh-config.\n" +
      'It ends within a minute when the worker goes silent, unless your ssh_config says otherwise.',
    examples: [
      ['jobman ssh 42', 'worker 0'],
      ['jobman ssh 42 --worker 3 -- df -h', 'one command on worker 3'],
    ],
    exitCodes: { 255: 'ssh could not connect; otherwise the exit code of what ran there' },
    flags: { worker: valueFlag("The worker's number", 'n', parseCount, 'w', 'i'), jobName },
    args: [jobs],
    load: async () => (await import('../commands/ssh.ts')).ssh,
  }),
  command({
    names: ['exec'],
    summary: 'Run one command on many workers or pods at once',
    usage: '<job> [--workers all|0,2] [--timeout 30s] [-i] [-t] [--in-container] [--pod pod] -- <command>...',
    about:
      "One word after the dashes is a line for the login's shell there: '$HOME', pipes and stars mean what they mean on the\n" +
      'worker. Several words are a program and its arguments, which arrive exactly as they are; no shell reads them.\n' +
      'It runs as after a login, not in the environment of the job; --in-container runs it in the container of the job,\n' +
      'with the variables of the command, but without its secrets.\n' +
      'With several workers each line has its worker in front; on a terminal a line that several print is drawn once, and\n' +
      'the end says where they agree: `same on 31/32`. Ctrl-C ends it on the workers too; so does a line that breaks.\n' +
      'A job of a cluster has pods in their place, of which all that run are meant; -it gives one of them this terminal.',
    examples: [
      ["jobman exec 42 -- 'df -h / | tail -1'", 'a line for a shell, on all workers'],
      ['jobman exec 42 --workers 0,4-7 -- python3 train.py --check', 'a program and its arguments'],
      ['jobman exec 42 --json -- uptime | jq -r .stdout', 'one object a worker'],
      ["jobman exec 42 --workers 0 --stdin -- 'cat >notes' <notes", 'with input, for one worker'],
      ['jobman exec -j listing -it -- sh', 'a shell in the pod of a job of a cluster'],
    ],
    exitCodes: {
      0: 'it ended with 0 on every worker',
      124: 'its time was over on a worker',
      4: 'in a cluster: the pod does not run',
      255: 'a worker could not be reached; otherwise the greatest exit code, 128 and its number for a signal',
    },
    flags: {
      workers: valueFlag('Which workers, or pods; all by default', 'all|0,2', parseWorkers, 'w'),
      timeout: valueFlag('End it on the workers after this time', 'time', parseDuration),
      stdin: boolFlag('Give our input to the command, on one worker; otherwise its input is empty', 'i'),
      tty: boolFlag('In a cluster: this terminal is that of the command, in one pod; it gets our input too', 't'),
      pod: stringFlag('In a cluster: the pod of this number or name, or the end of its name', 'pod'),
      container: stringFlag('In a cluster: this container of the pod', 'name', 'c'),
      inContainer: boolFlag("In the container that the job's command runs in"),
      noFold: boolFlag('On a terminal: print equal lines of several workers each'),
      jobName,
      ...contextFlags,
    },
    args: [jobs],
    load: async () => (await import('../commands/exec.ts')).exec,
  }),
  command({
    names: ['setup'],
    summary: 'Run one setup step again, on all workers that a job holds',
    usage: '<job> <step> [--force]',
    about:
      'The steps are those of `setup.modules`: ssh, gcsfuse, docker, conda, venv; and `files` for job.files. Where the\n' +
      "step's check succeeds, nothing is done; --force applies it all the same. All workers run it at once, and a failure on\n" +
      'one stops no other. Refused while the controller is setting up, and while the command runs in what the step would\n' +
      'replace; the message says what to do. Ctrl-C leaves; what has begun on a worker goes on there.',
    examples: [
      ['jobman setup 42 gcsfuse', 'mount the buckets again where they are not mounted'],
      ['jobman setup 42 docker --force', 'pull the image again, to get what is behind its tag now'],
    ],
    exitCodes: { 0: 'the step holds on every worker', 1: 'it failed on a worker', 4: 'it may not be done now' },
    flags: {
      force: boolFlag('Apply the step even where it holds'),
      noFold: boolFlag('On a terminal: print equal lines of several workers each'),
      jobName,
    },
    args: [{ ...jobs, propose: setupSteps }],
    load: async () => (await import('../commands/setup.ts')).setup,
  }),
  command({
    names: ['cp'],
    summary: 'Copy files and folders to workers or pods, or from them',
    usage: '<from>... <to> [--workers all|0,2] [--pod pod] [--replace]',
    about:
      'One side is `<job>:path`; relative paths there begin in the login folder. Into a folder that is there, else to the new\n' +
      'path; a slash at its end means a folder, which is made. From several workers each gets a folder: worker-0, worker-1.\n' +
      'Times, links and the rights of the owner are kept; your umask limits the rights of others. A copy is renamed into its\n' +
      'place when all of it has arrived: there is no half of one. A copy from a worker has the name that you asked for, and\n' +
      'loses setuid bits, devices and FIFOs.\n' +
      'In a cluster it copies to and from the running pods. Relative paths begin in the working directory of the container,\n' +
      'whose image needs `sh` and `tar`. From several pods each gets a folder: pod-0, pod-1.',
    examples: [
      ['jobman cp train.py data 42:', 'a file and a folder, to all workers'],
      ['jobman cp 42:results ./', 'from all workers: ./worker-0/results and so on'],
      ['jobman cp 42:results/best.npz ./ --workers 0', 'from one: ./best.npz'],
      ['jobman cp train:/out/model.bin ./ --pod 0', 'from a pod of a job of a cluster'],
    ],
    exitCodes: {
      3: 'there is nothing of that name',
      4: 'a file or folder is in the way',
      5: 'a worker could not be reached',
    },
    flags: {
      workers: valueFlag('Which workers, or pods; all by default', 'all|0,2', parseWorkers, 'w'),
      replace: boolFlag('Replace a file or folder that is there already'),
      pod: stringFlag('In a cluster: the pod of this number or name, or the end of its name', 'pod'),
      container: stringFlag('In a cluster: this container of the pod', 'name', 'c'),
      ...contextFlags,
    },
    args: [{ name: 'path', summary: 'A path here, or <job>:path', many: true }],
    load: async () => (await import('../commands/cp.ts')).cp,
  }),
  command({
    names: ['port-forward'],
    summary: 'Reach a port of a worker or pod from here, as of TensorBoard',
    usage: '<job> <port|here:there>... [--worker n] [--pod pod] [--address a]',
    about:
      "It listens on this machine's loopback address only, unless --address names another, and goes on until Ctrl-C or\n" +
      'until the job has no machines any more. When the job is moved to another TPU, or has another pod, it says so and\n' +
      'goes there.',
    examples: [
      ['jobman port-forward 42 6006', 'http://127.0.0.1:6006 is port 6006 of worker 0'],
      ['jobman port-forward 42 8080:6006 9999 --worker 3', 'two ports of worker 3'],
      ['jobman port-forward -j vit-b16 8080:6006', 'of the pod of a job of a cluster'],
    ],
    exitCodes: {
      1: 'the job has ended and has no machines any more',
      4: 'the port is taken, or the pod does not run',
      130: 'you ended it; the job goes on',
    },
    flags: {
      worker: valueFlag("The worker's number; 0 by default", 'n', parseCount, 'w', 'i'),
      pod: stringFlag('In a cluster: the pod of this number or name; the first that runs by default', 'pod'),
      address: valueFlag('Listen on this address of this machine', 'address', parseAddress),
      jobName,
      ...contextFlags,
    },
    args: [jobs],
    load: async () => (await import('../commands/port-forward.ts')).portForward,
  }),
  command({
    names: ['ssh-config'],
    summary: 'Print the workers as hosts for ssh and editors',
    usage: '<job>...',
    about:
      'A Host block for each worker, `jobman-42-0` and so on; `jobman-42` is worker 0. For VS Code and the like, write it to a\n' +
      'file and name that in ~/.ssh/config: `Include jobman.config`. When a job has moved to another TPU, write it again.',
    examples: [
      ['jobman ssh-config 42 > ~/.ssh/jobman.config', 'for Include, or for ssh -F ~/.ssh/jobman.config jobman-42'],
    ],
    flags: { jobName },
    args: [jobs],
    load: async () => (await import('../commands/ssh.ts')).sshConfig,
  }),
]);
