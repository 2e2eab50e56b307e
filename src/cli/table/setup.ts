import {
  commandNames,
  contextNames,
  emulatorVerbs,
  emulatorArguments,
  hostNames,
  notifyArguments,
  secretNames,
  serverArgument,
  settingArguments,
  shells,
} from '../completion/proposals.ts';
import { command, grouped } from '../command.ts';
import { boolFlag, parseChoice, valueFlag } from '../flags.ts';
import { parseCount, parseDurationOr } from '../parse.ts';
import {
  backupFlags,
  emulatorServeFlags,
  hostFlags,
  loginFlags,
  logoutFlags,
  restoreFlags,
  secretFlags,
  secretEncryptFlags,
  dashboardFlags,
  serverFlags,
} from './flags.ts';

const shell = {
  name: 'shell',
  summary: 'bash, zsh or fish',
  needed: true,
  parse: parseChoice(shells),
  propose: () => shells,
} as const;
export const setup = grouped('Setup', [
  command({
    names: ['login'],
    summary: 'Log in to a server, or check the login to Google Cloud',
    usage: '[url|context] [--name name] [--browser|--device|--token-file file]',
    about:
      'With the address of a server: opens a browser in which you log in, or shows a code for a browser on another ' +
      'machine; see docs/login.md. If the server has no identity provider, asks for a token without showing it; a script ' +
      'passes a token with a pipe or --token-file. Once the server has accepted the token, jobman stores it. The server ' +
      'becomes the current context, which commands use; see docs/server.md.\n\n' +
      'Without an argument: checks the login of this machine to Google Cloud, or explains how to log in. jobman stores no ' +
      'Google password. Local jobs and the TPU emulator need no login.',
    examples: [
      ['jobman login https://jobman.example', 'with a browser or a token; the name of the context is jobman.example'],
      ['jobman login https://jobman.example --device', 'with a browser on another machine'],
      ['jobman login https://jobman.example --name lab <token', 'read the token from a file'],
      ['jobman login https://jobman.example --ca lab-ca.pem', 'a server whose certificate your own CA signed'],
      ['jobman login lab', 'log in to the context lab again, with a new token'],
      ['jobman login', 'check the login to Google Cloud, or list the gcloud commands that log in'],
    ],
    exitCodes: {
      4: 'the server refuses the token or the account, or another context already has the name',
      5: 'the server or its identity provider does not answer, or there is no login to Google Cloud',
    },
    flags: loginFlags,
    args: [{ name: 'server', summary: 'Address of a server, or a context', propose: contextNames }],
    load: async () => (await import('../commands/login.ts')).login,
  }),
  command({
    names: ['logout'],
    summary: 'Remove the stored token of a server',
    usage: '[context] [--revoke]',
    about:
      'The context stays, so that no command acts on this machine by mistake. `jobman context delete NAME` deletes it.',
    examples: [
      ['jobman logout', 'remove the token of the current context'],
      ['jobman logout lab --revoke', 'also revoke the token on the server'],
    ],
    exitCodes: { 3: 'there is no such context' },
    flags: logoutFlags,
    args: [{ name: 'context', summary: 'A context', propose: contextNames }],
    load: async () => (await import('../commands/contexts.ts')).logOut,
  }),
  command({
    names: ['whoami'],
    summary: 'Show your user and role, and the server or home that commands use',
    examples: [
      ['jobman whoami', 'who you are, and where'],
      ['jobman whoami --server lab', 'the same for another server'],
    ],
    load: async () => (await import('../commands/contexts.ts')).whoAmI,
  }),
  command({
    names: ['context', 'context list', 'context ls'],
    summary: 'List the servers that you can use',
    about:
      'A context is a server with a token that `jobman login` has stored. `*` is next to the context that commands use: that of ' +
      '--server, else of JOBMAN_SERVER, else the current context, else `local`, which is this machine.',
    examples: [['jobman context', 'names, addresses and users']],
    load: async () => (await import('../commands/contexts.ts')).list,
  }),
  command({
    names: ['context use'],
    summary: 'Choose the server that commands use from now on',
    usage: '<context>|local',
    examples: [
      ['jobman context use lab', 'in every terminal that does not set JOBMAN_SERVER'],
      ['jobman context use local', 'this machine again'],
    ],
    exitCodes: { 3: 'there is no such context' },
    args: [{ name: 'context', summary: 'A context, or local', needed: true, propose: serverArgument }],
    load: async () => (await import('../commands/contexts.ts')).use,
  }),
  command({
    names: ['context delete', 'context rm'],
    summary: 'Delete a context and its stored token',
    usage: '<context>',
    examples: [['jobman context delete lab', 'if it is the current context, commands then use this machine']],
    exitCodes: { 3: 'there is no such context' },
    args: [{ name: 'context', summary: 'A context', needed: true, propose: contextNames }],
    load: async () => (await import('../commands/contexts.ts')).remove,
  }),
  command({
    names: ['backup'],
    usesHome: true,
    summary: 'Save all jobs, logs and files of this home in one file',
    usage: '<file> [--with-secrets]',
    about:
      'Jobs continue during the backup. All rows of the database are from one point in time; logs may be newer. The file ' +
      'has the mode 0600. The same or a later version of jobman can restore it, into SQLite or PostgreSQL. docs/backup.md ' +
      'explains what the file contains.',
    examples: [
      ['jobman backup jobman.backup', 'everything except secrets and the SSH key'],
      ['jobman backup move.backup --with-secrets', 'to move the home to another machine'],
    ],
    exitCodes: { 3: 'there are no jobs yet', 4: 'the file exists' },
    flags: backupFlags,
    args: [{ name: 'file', summary: 'A new file', needed: true }],
    load: async () => (await import('../commands/backup.ts')).backup,
  }),
  command({
    names: ['restore'],
    usesHome: true,
    summary: 'Restore a backup into an empty home',
    usage: '<file> | --takeover',
    about:
      'Checks the digests of the backup, then fills the home and its database, which must be empty. The restored home is ' +
      'read-only, so that it cannot act on the TPUs of the original. Once the original is stopped for good, run ' +
      '`jobman restore --takeover`, so that the restored home controls the TPUs. If a restore is interrupted, repeat it.',
    examples: [
      ['JOBMAN_HOME=~/restored jobman restore jobman.backup', 'into a new home'],
      ['JOBMAN_DATABASE=$URL jobman restore jobman.backup', 'into PostgreSQL'],
      ['jobman restore --takeover', 'once the original no longer runs'],
    ],
    exitCodes: { 1: 'the backup is damaged', 3: 'there is no such file', 4: 'the home or its database is not empty' },
    flags: restoreFlags,
    args: [{ name: 'file', summary: 'A backup' }],
    load: async () => (await import('../commands/backup.ts')).restore,
  }),
  command({
    names: ['doctor'],
    usesHome: true,
    summary: 'Check the installation: login, permissions, controller, SSH, disk, and more',
    about:
      'Runs all checks at the same time, each for at most 25 seconds, and changes nothing. A line is `ok`; `warning`: ' +
      'jobman works, but something needs attention; `problem`; or `unknown`: the check could not run. Below a line is ' +
      'the command that repairs it or shows more.\n\n`tpu doctor` checks the data of a lab.',
    examples: [
      ['jobman doctor', 'every check, and the commands that repair what is wrong'],
      ['jobman doctor --json | jq -r \'select(.state == "problem") | .remedy\'', 'for programs: one object per line'],
    ],
    exitCodes: { 1: 'there is a problem' },
    load: async () => (await import('../commands/doctor.ts')).doctor,
  }),
  command({
    names: ['settings'],
    summary: 'Show effective settings and their sources, or change one',
    usage: '[list] | get <key> | set <key> <value> | add <key> <value> | unset <key>',
    about:
      'Settings are in $JOBMAN_HOME/settings.json (~/.jobman/settings.json unless JOBMAN_HOME is set); you may ' +
      'also edit the file. An invalid value changes nothing. With a server, an admin sees the settings of the server. ' +
      'docs/settings.md explains each key.',
    examples: [
      ['jobman settings', 'each value and its source: a variable, settings.json or the default'],
      ['jobman settings get tpu.project', 'one value'],
      ['jobman settings set tpu.project my-project', 'the project of manifests that name none'],
      ['jobman settings add notify.to mail:alice@example.com', 'add an element to a list'],
      ['jobman settings unset notify.channels.slack', 'remove one entry of an object'],
      ['jobman settings unset tpu.project', 'use the default again'],
    ],
    args: [
      {
        name: 'action',
        summary: 'list, get, set, add or unset; a key; a value',
        many: true,
        propose: settingArguments,
      },
    ],
    load: async () => (await import('../commands/settings.ts')).settings,
  }),
  command({
    names: ['hosts', 'hosts list', 'hosts ls'],
    summary: 'List your own machines: address, slots, GPUs, jobs',
    about:
      'A manifest names them, as in `hosts: [gpu1]`. localhost is this machine, with the settings local.slots and ' +
      'local.gpus. JOBS are those that hold a slot there, even while the host does not answer. Change the list: ' +
      'jobman hosts add, jobman hosts remove.',
    examples: [['jobman hosts', 'this machine and the hosts of the settings']],
    load: async () => (await import('../commands/hosts.ts')).list,
  }),
  command({
    names: ['hosts add'],
    usesHome: true,
    summary: 'Add a machine that jobman reaches by SSH',
    usage: '<name> --ssh address [--slots n] [--gpus n]',
    about: 'Adds it to the settings; nothing is installed on the machine. A wrong value changes nothing.',
    examples: [
      ['jobman hosts add gpu1 --ssh gpu1.lab --gpus 4', 'four slots, each with one GPU'],
      ['jobman hosts add gpu2 --ssh ada@example.com:2222 --gpus 8 --slots 2', 'two slots, each with four GPUs'],
    ],
    exitCodes: { 4: 'there is a host of this name' },
    flags: hostFlags,
    args: [{ name: 'name', summary: 'Name of the host: lower-case letters, digits and -', needed: true }],
    load: async () => (await import('../commands/hosts.ts')).add,
  }),
  command({
    names: ['hosts remove', 'hosts rm'],
    usesHome: true,
    summary: 'Remove a machine from the settings',
    usage: '<name>',
    examples: [['jobman hosts remove gpu1', 'refused while a job uses the host; the machine itself is not changed']],
    exitCodes: { 3: 'there is no host of this name', 4: 'a job uses the host' },
    args: [{ name: 'name', summary: 'Name of the host', needed: true, propose: hostNames }],
    load: async () => (await import('../commands/hosts.ts')).remove,
  }),
  command({
    names: ['secret', 'secret list', 'secret ls'],
    summary: 'List your secrets and the jobs that use them, never their values',
    about:
      'JOBS are the unfinished jobs that need the secret. jobman stores the values on this machine or on the server: in ' +
      'files that only one login can read, or encrypted in the database. docs/secrets.md explains how jobs use them.',
    examples: [['jobman secret', 'names, sizes and times of the last change']],
    load: async () => (await import('../commands/secret.ts')).list,
  }),
  command({
    names: ['secret set'],
    summary: 'Store a secret, or replace its value',
    usage: '<name> [--file path] [--job job]',
    about:
      'Reads the value from standard input or a file. It is never an argument, because other users can see arguments. On a ' +
      'terminal, the command asks for the value without showing it. A job reads its secrets at each start, so a running ' +
      'program gets a new value only with its next attempt.',
    examples: [
      ['jobman secret set wandb', 'ask for the value'],
      ['jobman secret set hf-token <~/.hf_token', 'read the value from standard input'],
      ['jobman secret set deploy-key --file ~/.ssh/deploy', 'read the value from a file'],
      [
        'jobman secret set HF_TOKEN --job 7 <~/.hf_token',
        'replace it for a job whose manifest has HF_TOKEN: ~/.hf_token',
      ],
    ],
    flags: secretFlags,
    args: [{ name: 'name', summary: 'Its name: letters, digits, _, . and -', needed: true, propose: secretNames }],
    load: async () => (await import('../commands/secret.ts')).set,
  }),
  command({
    names: ['secret delete', 'secret rm'],
    summary: 'Delete a secret',
    usage: '<name>',
    examples: [['jobman secret delete wandb', 'refused while an unfinished job needs it']],
    exitCodes: { 3: 'there is no secret of this name', 4: 'an unfinished job needs it' },
    args: [{ name: 'name', summary: 'Name of the secret', needed: true, propose: secretNames }],
    load: async () => (await import('../commands/secret.ts')).remove,
  }),
  command({
    names: ['secret encrypt'],
    usesHome: true,
    summary: 'Encrypt all secrets of this home in its database, with a key file',
    usage: '[--key-file file]',
    about:
      'Creates the key file with the mode 0600, sets server.secrets_key to it, and moves the values of all users and jobs ' +
      'from their files into the database. A second server with the same database needs a copy of the key file.',
    examples: [
      ['jobman secret encrypt', 'the key file is secrets.key in the home'],
      ['jobman secret encrypt --key-file /etc/jobman/secrets.key', 'the key file is outside of the home'],
    ],
    exitCodes: { 4: 'another key file is in use, or you are not an admin' },
    flags: secretEncryptFlags,
    load: async () => (await import('../commands/secret.ts')).encrypt,
  }),
  command({
    names: ['secret rotate-key'],
    usesHome: true,
    summary: 'Encrypt all secrets with a new key',
    about:
      'Programs and servers continue. The previous key stays in the key file until no secret needs it. If the ' +
      'command is interrupted, repeat it. Then copy the key file to a second server at once.',
    examples: [['jobman secret rotate-key', 'if another person may have read the key file']],
    exitCodes: { 1: 'a secret cannot be decrypted; its key stays', 4: 'you are not an admin' },
    load: async () => (await import('../commands/secret.ts')).rotateKey,
  }),
  command({
    names: ['notify'],
    summary: 'Show who is notified and the newest messages, or send a test message',
    usage: '[list] | test [channel]... | drop <recipient>',
    about:
      'The settings below `notify` name channels and recipients; a manifest may name others. ' +
      'docs/notifications.md explains both.\n\n' +
      '`test` sends a real message from this process, to every channel and recipient of the settings or to those ' +
      'that you name, and prints one line for each. `drop` gives up the events that are not yet delivered to a ' +
      'recipient, such as a channel that the settings no longer have.',
    examples: [
      ['jobman notify', 'recipients, and the newest messages with their failures'],
      ['jobman notify test', 'send a test message to everyone in the settings'],
      ['jobman notify test slack mail:alice@example.com', 'test one channel and one address'],
      ['jobman notify drop slack', 'give up the events that wait for a channel'],
    ],
    exitCodes: {
      1: 'a test message could not be sent',
      3: 'drop: no event waits for that recipient',
      4: 'drop: events about jobs of other users wait for that recipient too; only root and the owner of the home may drop them',
    },
    args: [{ name: 'action', summary: 'list; test or drop, and the recipients', many: true, propose: notifyArguments }],
    load: async () => (await import('../commands/notify.ts')).notify,
  }),
  command({
    names: ['server'],
    usesHome: 'always',
    summary: 'Serve the jobs of this home over HTTP, and run its controller, in the foreground',
    usage: '[--listen host:port] [--tls-certificate file --tls-key file] [--trusted-proxy address]...',
    about:
      'Users log in with `jobman login` and the address of the server; see docs/server.md. To accept other machines, the ' +
      'server needs TLS, or a proxy that you name. Flags override the settings of the section `server`.',
    examples: [
      ['jobman server', 'at 127.0.0.1:7420, until Ctrl-C'],
      ['jobman server --listen 127.0.0.1:8080', 'on another port'],
      [
        'jobman server --listen 0.0.0.0:443 --tls-certificate server.pem --tls-key server.key',
        'for other machines, with TLS',
      ],
    ],
    flags: serverFlags,
    load: async () => (await import('../commands/server.ts')).server,
  }),
  command({
    names: ['dashboard'],
    summary: 'Show the jobs in a browser',
    usage: '[--port port] [--no-browser]',
    about:
      'Serves the dashboard to one browser until Ctrl-C. It needs no `jobman server`. The printed address is a login: it ' +
      'works once, for one browser. From another machine: ssh -t -L 7421:127.0.0.1:7421 HOST jobman dashboard --port 7421. ' +
      'If your commands use a server, the command opens the dashboard of that server instead; see docs/dashboard.md.',
    examples: [
      ['jobman dashboard', 'open the pages in a browser'],
      ['jobman dashboard --port 7421 --no-browser', 'for a browser that reaches this machine over SSH'],
    ],
    flags: dashboardFlags,
    load: async () => (await import('../commands/dashboard.ts')).dashboard,
  }),
  command({
    names: ['controller status'],
    usesHome: true,
    summary: 'Show whether the controller runs',
    examples: [['jobman controller status', 'its process, version and log']],
    exitCodes: { 1: 'the controller does not run' },
    load: async () => (await import('../commands/controller.ts')).status,
  }),
  command({
    names: ['controller start'],
    usesHome: true,
    summary: 'Start the controller in the background',
    examples: [['jobman controller start', 'commands that need the controller start it themselves']],
    load: async () => (await import('../commands/controller.ts')).start,
  }),
  command({
    names: ['controller stop'],
    usesHome: true,
    summary: 'Stop the controller; programs on workers keep running',
    examples: [['jobman controller stop', 'the next command that needs a controller starts one']],
    load: async () => (await import('../commands/controller.ts')).stop,
  }),
  command({
    names: ['controller restart'],
    usesHome: true,
    summary: 'Restart the controller; programs on workers keep running',
    examples: [['jobman controller restart', 'use the settings, environment and SSH agent of this terminal']],
    load: async () => (await import('../commands/controller.ts')).restart,
  }),
  command({
    names: ['controller logs'],
    usesHome: true,
    summary: 'Print the log of the controller',
    usage: '[--tail lines]',
    examples: [['jobman controller logs --tail 20', 'the last 20 lines']],
    exitCodes: { 3: 'there is no log yet' },
    flags: { tail: valueFlag('The last lines; 100 by default', 'lines', parseCount) },
    load: async () => (await import('../commands/controller.ts')).logs,
  }),
  command({
    names: ['controller run'],
    usesHome: 'always',
    summary: 'Run the controller in the foreground',
    usage: '[--idle-exit 10m]',
    examples: [
      ['jobman controller run', 'until Ctrl-C, or until no job needs it'],
      ['jobman controller run --idle-exit never', 'for a service manager'],
    ],
    flags: {
      idleExit: valueFlag('Exit after this time without a job to watch', 'time|never', parseDurationOr('never')),
    },
    load: async () => (await import('../commands/controller.ts')).run,
  }),
  command({
    names: ['controller install'],
    usesHome: true,
    summary: 'Keep the controller running after logout and reboot',
    examples: [['jobman controller install', 'install a user service, or an @reboot line of cron']],
    load: async () => (await import('../commands/controller.ts')).install,
  }),
  command({
    names: ['controller uninstall'],
    usesHome: true,
    summary: 'Undo `controller install`',
    examples: [['jobman controller uninstall', 'remove the service or the line of cron']],
    load: async () => (await import('../commands/controller.ts')).uninstall,
  }),
  command({
    names: ['emulator status'],
    usesHome: true,
    summary: 'Show whether the TPU emulator runs, and its TPUs',
    examples: [['jobman emulator status', 'its address and its nodes']],
    exitCodes: { 1: 'the emulator does not run' },
    load: async () => (await import('../commands/emulator.ts')).status,
  }),
  command({
    names: ['emulator start'],
    usesHome: true,
    summary: 'Start the TPU emulator in the background',
    examples: [['jobman emulator start', 'a job in project `emulator` starts it too']],
    load: async () => (await import('../commands/emulator.ts')).start,
  }),
  command({
    names: ['emulator stop'],
    usesHome: true,
    summary: 'Stop the TPU emulator; its state stays on disk',
    examples: [['jobman emulator stop', 'the next start continues from that state']],
    load: async () => (await import('../commands/emulator.ts')).stop,
  }),
  command({
    names: ['emulator serve'],
    usesHome: 'always',
    summary: 'Run the TPU emulator in the foreground',
    usage: '[--port n] [--speed factor] [--seed n] [--state folder] [--hosts kind] [--schedule file]',
    about: 'Prints READY and its address once it answers. docs/emulator.md explains the schedule file.',
    examples: [
      ['jobman emulator serve --port 8080 --speed 10', 'ten times as fast as the real cloud'],
      ['jobman emulator serve --seed 7 --schedule storm.yaml', 'inject the faults of a file'],
    ],
    flags: emulatorServeFlags,
    load: async () => (await import('../commands/emulator.ts')).serve,
  }),
  command({
    names: ['emulator act'],
    usesHome: true,
    hidden: true,
    summary: 'Inject a fault into the TPU emulator',
    usage: '<verb> [target] [--option value]...',
    about:
      "A target is a job's id or name, a node's name, or a worker of either: 1/3 is worker 3 of job 000001. The " +
      'verbs from `stockout` on set a condition. It lasts for a time (--for 10m), for a number of calls ' +
      '(--times 3), or until it is cleared.\n\n' +
      'docs/emulator.md shows each verb with its options.',
    extraRows: ['Verbs', emulatorVerbs],
    examples: [
      ['jobman emulator preempt 1', 'preempt the TPU of job 000001'],
      ['jobman emulator stockout us-central2-b --for 10m', 'no capacity in that zone for ten minutes'],
    ],
    args: [{ name: 'verb', summary: 'The verb, its target and its options', many: true, propose: emulatorArguments }],
    load: async () => (await import('../commands/emulator.ts')).act,
  }),
  command({
    names: ['import'],
    usesHome: true,
    summary: 'Import the jobs of the older TPU manager',
    usage: '<folder> [--apply]',
    about:
      'The folder is jobs/ of that program; both of its layouts work. Each job becomes a finished job with its ' +
      'manifest and logs; `resume` and `rerun` accept it. A job is never imported twice.\n\n' +
      'Without --apply the command prints what it would import, what it would skip, and why. `tpu import` ' +
      'imports the data.json of the lab.',
    examples: [
      ['jobman import ~/jobman/jobs', 'show what would be imported'],
      ['jobman import ~/jobman/jobs --apply', 'import it'],
    ],
    flags: { apply: boolFlag('Import the jobs') },
    args: [{ name: 'folder', summary: 'The folder jobs/', needed: true }],
    load: async () => (await import('../commands/import.ts')).importJobs,
  }),
  command({
    names: ['completion'],
    summary: 'Print a completion script for a shell',
    usage: 'bash|zsh|fish',
    examples: [
      ['source <(jobman completion bash)', 'in ~/.bashrc'],
      ['source <(jobman completion zsh)', 'in ~/.zshrc'],
      ['jobman completion fish | source', 'in ~/.config/fish/config.fish'],
    ],
    args: [shell],
    load: async () => (await import('../commands/help.ts')).completion,
  }),
  command({
    names: ['help'],
    summary: 'Show the help of a command',
    usage: '[command]',
    examples: [
      ['jobman help', 'all commands'],
      ['jobman help logs', 'the same as jobman logs --help'],
    ],
    args: [{ name: 'command', summary: 'The command', many: true, propose: commandNames }],
    load: async (program) => (await import('../commands/help.ts')).helpOf(program),
  }),
  command({
    names: ['version'],
    summary: 'Print the version',
    examples: [['jobman version', 'the same as jobman --version']],
    load: async () => (await import('../commands/help.ts')).version,
  }),
]);
