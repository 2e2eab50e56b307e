import { grouped } from '../../command.ts';
import { choiceFlag, boolFlag, stringFlag } from '../../flags.ts';
import { tpuCommand, tpuQuery } from '../command.ts';
import { alias, askNotes, notes } from './shared.ts';

const fullName = { name: 'full', needed: true, summary: "TPU's full name" } as const;
const zone = stringFlag('Zone of the TPU', 'zone');
const type = stringFlag('Type, if the name does not contain it', 'v2-32');
const pricing = choiceFlag('Pricing', ['ondemand', 'preemptible', 'spot']);
const normal = boolFlag('Create it on demand instead of preemptible');

export const tpuCommands = grouped('TPUs', [
  tpuQuery(['find'], 'List free, reserved and running TPUs from the booking sheet', {
    usage: '[types]... [-n|-p] [style=full]',
    about:
      "A type is v2, v3 or v4, several of them (v234), a type with its size (v2-32), or all: -a or 'v*' in quotes.",
    examples: [
      ['tpu find v34 -n', 'v3 and v4 TPUs that are not preemptible'],
      ['tpu find v2-32 -p', 'preemptible TPUs of that type'],
    ],
    takes: {
      types: 'families',
      keys: { style: choiceFlag('How much of each row to show', ['full', 'category', 'category_note']) },
    },
    flags: {
      n: boolFlag('Only TPUs that are not preemptible', 'normal'),
      p: boolFlag('Only preemptible TPUs', 'preemptible'),
      a: boolFlag('All types', 'all'),
    },
    load: async () => (await import('../commands/bookings.ts')).find,
  }),
  tpuCommand(['book'], 'Reserve a TPU in the booking sheet, or change its notes', {
    usage: '<tpu> [user] [ssn=notes]',
    examples: [['tpu book v2-32-6 ada ssn=until_monday', 'with a note']],
    takes: { user: true, tpu: 'one', keys: { ssn: notes } },
    flags: { ssn: askNotes },
    load: async () => (await import('../commands/bookings.ts')).book,
  }),
  tpuCommand(['release', 'rel'], 'Mark a TPU as free in the booking sheet', {
    about: 'With a user, only if the TPU is booked for that user. The TPU itself is not deleted: see `tpu delete`.',
    examples: [['tpu rel v2-32-6 ada', 'if it is booked for ada']],
    takes: { user: true, tpu: 'one' },
    load: async () => (await import('../commands/bookings.ts')).release,
  }),
  tpuQuery(['describe', '-dtpu', 'describe-tpu'], 'Show the state, users and problems of a TPU', {
    examples: [['tpu describe v2-32-6', 'with its booking']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).describe,
  }),
  tpuQuery(['check-status', '-cktpu'], "Show Google's state of a TPU, such as ready or preempted", {
    examples: [['tpu check-status v2-32-6', 'prints the state only']],
    exitCodes: { 3: 'the TPU does not exist', 5: 'Google Cloud does not answer' },
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).checkStatus,
  }),
  tpuQuery(['check-env'], 'Check that Python on the workers sees the TPU', {
    examples: [['tpu check-env v2-32-6', 'success, file_error, occupied, timeout or unknown']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).checkEnv,
  }),
  tpuCommand(['solve', 'solve-env'], 'Find the problems of a TPU and repair them', {
    usage: '<tpu> [--dry-run]',
    examples: [['tpu solve v2-32-6 --dry-run', 'only show the problems']],
    takes: { tpu: 'one' },
    flags: { 'dry-run': boolFlag('Show the problems and repairs, and change nothing', 'dry') },
    load: async () => (await import('../commands/solve.ts')).solve,
  }),
  tpuCommand(['mount-disk'], "Mount the lab's shares on a TPU and log it in to W&B", {
    examples: [['tpu mount-disk v2-32-6', 'safe to repeat']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).mountDisk,
  }),
  tpuCommand(['set-wandb'], 'Log a TPU in to W&B', {
    examples: [['tpu set-wandb v2-32-6', 'with the W&B key from the settings']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).setWandb,
  }),
  tpuCommand(['apply', 'create', 'apply-norm'], "Create a TPU and mount the lab's shares on it", {
    usage: '<tpu> [-norm]',
    examples: [['tpu apply v2-32-p1', 'with the zone, type and pricing of the registry']],
    takes: { tpu: 'one' },
    flags: { norm: normal },
    load: async () => (await import('../commands/tpus.ts')).apply,
  }),
  tpuCommand(['reapply', 'reapply-norm'], "Delete a TPU, create it again and mount the lab's shares on it", {
    usage: '<tpu> [-norm]',
    about: 'If the TPU is in use, the command lists the jobs and asks first.',
    examples: [['tpu reapply v2-32-p1 --yes', 'without a question']],
    takes: { tpu: 'one' },
    flags: { norm: normal },
    load: async () => (await import('../commands/tpus.ts')).reapply,
  }),
  tpuCommand(['delete'], 'Delete a TPU; the registry keeps its name', {
    about:
      'Lists the jobs and programs that use the TPU, and always asks unless you pass --yes. ' +
      'The booking sheet shows the TPU as gone until `tpu apply` creates it again.',
    examples: [['tpu delete v2-32-p1', 'it costs nothing from then on']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).deleteTpu,
  }),
  tpuCommand(['restart'], 'Stop and start the machines of a TPU', {
    examples: [['tpu restart v2-32-6', 'and wait until they answer']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).restart,
  }),
  tpuQuery(['list', '-lta', '-sta', 'list-tpu-aliases'], "List the lab's TPUs with their aliases", {
    examples: [['tpu list --json', 'one JSON object per line']],
    load: async () => (await import('../commands/tpu-registry.ts')).listTpuAliases,
  }),
  tpuCommand(['add-tpu-alias', '-ta', '-ata'], 'Add an alias for a TPU', {
    usage: '<alias> <full name> [zone=Z] [type=T] [pricing=P]',
    about: 'Registers the TPU if the registry does not have it.',
    examples: [['tpu add-tpu-alias v2-32-6 lab-tpu-v2-32-6 zone=europe-west4-a', 'also sets its zone']],
    takes: { keys: { zone, type, pricing } },
    args: [alias, fullName],
    load: async () => (await import('../commands/tpu-registry.ts')).addTpuAlias,
  }),
  tpuCommand(['del-tpu-alias'], 'Remove an alias of a TPU', {
    examples: [['tpu del-tpu-alias v2-32-6', 'the TPU stays registered']],
    args: [{ ...alias, suggests: 'TPU aliases' }],
    load: async () => (await import('../commands/tpu-registry.ts')).delTpuAlias,
  }),
  tpuCommand(['register'], 'Register a TPU, or change its entry in the registry', {
    usage: '<full name> [zone=Z] [type=T] [pricing=P] [project=P] [version=V]',
    about: 'Values that you do not give stay unchanged. A new TPU gets its type and pricing from its name.',
    examples: [['tpu register lab-tpu-v2-32-p1 zone=europe-west4-a pricing=preemptible', 'the name has the type']],
    takes: {
      keys: {
        zone,
        type,
        pricing,
        project: stringFlag('Google Cloud project, if not that of the settings', 'project'),
        version: stringFlag('Runtime version to create it with', 'version'),
      },
    },
    args: [fullName],
    load: async () => (await import('../commands/tpu-registry.ts')).register,
  }),
  tpuCommand(['unregister', 'del-reg'], 'Remove a TPU and its aliases from the registry', {
    about: 'The TPU itself does not change: see `tpu delete`.',
    examples: [['tpu unregister v2-32-p1', 'by alias or full name']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpu-registry.ts')).unregister,
  }),
]);
