import { command, grouped } from '../command.ts';
import { setupSteps } from '../completion/proposals.ts';
import { cpFlags, execFlags, jobName, jobs, portForwardFlags, setupFlags, sshFlags } from './flags.ts';

export const workers = grouped('Workers', [
  command({
    names: ['ssh'],
    summary: 'Open a shell on a worker',
    usage: '<job> [--worker n] [-- command...]',
    about:
      "Runs the system's ssh on this terminal. The connection ends within a minute if the worker does not " +
      'answer, unless your ssh_config says otherwise. The exit code is that of the remote program. Through a server ' +
      'the server connects, and your ssh_config has no effect.\n\n' +
      'For many workers at once: jobman exec. For an editor: jobman ssh-config.',
    examples: [
      ['jobman ssh 42', 'worker 0'],
      ['jobman ssh 42 --worker 3 -- df -h', 'one command on worker 3'],
    ],
    exitCodes: { 255: 'ssh could not connect' },
    flags: sshFlags,
    args: [jobs],
    load: async () => (await import('../commands/ssh.ts')).ssh,
  }),
  command({
    names: ['exec'],
    summary: 'Run a command on several workers or pods at once',
    usage: '<job> [--workers all|0,2] [--timeout 30s] [--stdin] [-t] [--in-container] [--pod pod] -- <command>...',
    about:
      'One argument after `--` is a line for the login shell of the worker: it may have variables, pipes and ' +
      'wildcards. Several arguments are a program and its arguments; no shell changes them.\n\n' +
      'The command has the environment of a login shell. --in-container runs it in the container of the job, with the ' +
      'variables of the job but without its secrets.\n\n' +
      'With several workers each line begins with the number of its worker. A terminal shows identical lines once and ends with a ' +
      'count: `same on 31/32`. Ctrl-C also ends the command on the workers.\n\n' +
      'The exit code is the highest one of all workers. A command that a signal killed has 128 plus the number of the signal.\n\n' +
      '-it attaches this terminal to the command, on one worker. For a job in a cluster it runs in all running pods.',
    examples: [
      ["jobman exec 42 -- 'df -h / | tail -1'", 'a line for a shell, on all workers'],
      ['jobman exec 42 --workers 0,4-7 -- python3 train.py --check', 'a program and its arguments'],
      ['jobman exec 42 --json -- uptime | jq -r .stdout', 'one object per worker'],
      ["jobman exec 42 --workers 0 --stdin -- 'cat >notes' <notes", 'send input to one worker'],
      ['jobman exec 42 --workers 0 --in-container -it -- bash', 'a shell in the container of a job'],
      ['jobman exec -j listing -it -- sh', 'a shell in the pod of a job in a cluster'],
    ],
    exitCodes: {
      0: 'the command exited with 0 on every worker',
      124: 'the command reached the timeout on a worker',
      4: 'in a cluster: the pod does not run',
      255: 'a worker could not be reached',
    },
    flags: execFlags,
    args: [jobs],
    load: async () => (await import('../commands/exec.ts')).exec,
  }),
  command({
    names: ['cp'],
    summary: 'Copy files and folders to or from workers or pods',
    usage: '<from>... <to> [--workers all|0,2] [--pod pod] [--replace]',
    about:
      'One side is `<job>:path`; a relative path there starts in the login folder. The target is an existing ' +
      'folder or a new path. If it ends with a slash, it is created as a folder.\n\n' +
      'Copies from several workers go to one folder per worker: worker-0, worker-1. A copy has a ' +
      'temporary name until it is complete. Times, links and the permissions of the owner are kept.\n\n' +
      'In a cluster it copies to or from the running pods, with pod-0, pod-1 as folders. A relative path starts ' +
      'in the working directory of the container, and the image needs `sh` and `tar`.',
    examples: [
      ['jobman cp train.py data 42:', 'a file and a folder, to all workers'],
      ['jobman cp 42:results ./', 'from all workers: ./worker-0/results and so on'],
      ['jobman cp 42:results/best.npz ./ --workers 0', 'from one: ./best.npz'],
      ['jobman cp train:/out/model.bin ./ --pod 0', 'from a pod of a job in a cluster'],
    ],
    exitCodes: {
      3: 'there is no such file or folder',
      4: 'a file or folder of that name exists',
      5: 'a worker could not be reached',
    },
    flags: cpFlags,
    args: [{ name: 'path', summary: 'A local path, or <job>:path', many: true }],
    load: async () => (await import('../commands/cp.ts')).cp,
  }),
  command({
    names: ['port-forward'],
    summary: 'Forward a local port to a worker or pod, for example for TensorBoard',
    usage: '<job> <port|local:remote>... [--worker n] [--pod pod] [--address a]',
    about:
      'Listens on the loopback address of this machine, unless --address names another. It runs until Ctrl-C, or ' +
      'until the job no longer has machines. If the job gets another TPU or pod, jobman forwards to that one and says so.',
    examples: [
      ['jobman port-forward 42 6006', 'http://127.0.0.1:6006 is port 6006 of worker 0'],
      ['jobman port-forward 42 8080:6006 9999 --worker 3', 'two ports of worker 3'],
      ['jobman port-forward -j vit-b16 8080:6006', 'the pod of a job in a cluster'],
    ],
    exitCodes: {
      1: 'the job has finished and no longer has machines',
      4: 'the port is taken, or the pod does not run',
      130: 'stopped with Ctrl-C; the job keeps running',
    },
    flags: portForwardFlags,
    args: [jobs],
    load: async () => (await import('../commands/exec.ts')).portForward,
  }),
  command({
    names: ['ssh-config'],
    summary: 'Print the workers as hosts for ssh and editors',
    usage: '<job>...',
    about:
      'Prints a Host block for each worker: `jobman-42-0` and so on. `jobman-42` is worker 0.\n\n' +
      'For VS Code and other editors, write the blocks to ~/.ssh/jobman.config and add `Include jobman.config` ' +
      'to ~/.ssh/config. Write them again when the job has a new TPU. ' +
      'Through a server there are none, because the keys of the workers stay there.',
    examples: [
      ['jobman ssh-config 42 > ~/.ssh/jobman.config', 'for Include, or for ssh -F ~/.ssh/jobman.config jobman-42'],
    ],
    flags: { jobName },
    args: [jobs],
    load: async () => (await import('../commands/ssh.ts')).sshConfig,
  }),
  command({
    names: ['setup'],
    summary: 'Run one setup step again on all workers of a job',
    usage: '<job> <step> [--force]',
    about:
      'The steps are those of `setup.modules` (ssh, gcsfuse, docker, conda, venv), and `files` for job.files. ' +
      'All workers run the step at once; a failure on one does not stop the others. A worker where the check of ' +
      'the step succeeds is skipped, unless you pass --force.\n\n' +
      'The command refuses while the controller sets up the job, and while the program uses what the step would ' +
      'replace. Ctrl-C detaches; steps that have started keep running.',
    examples: [
      ['jobman setup 42 gcsfuse', 'mount the buckets again where they are not mounted'],
      ['jobman setup 42 docker --force', 'pull the image again'],
    ],
    exitCodes: {
      0: 'the step is applied on every worker',
      1: 'the step failed on a worker',
      4: 'the controller is setting up the job, or its program uses what the step would replace',
    },
    flags: setupFlags,
    args: [{ ...jobs, propose: setupSteps }],
    load: async () => (await import('../commands/setup.ts')).setup,
  }),
]);
