import { command, grouped } from '../command.ts';
import { billingFlags, checkpointsFlags, costFlags, jobs, pricesFlags, quotaFlags, storageFlags } from './flags.ts';

export const usage = grouped('Usage', [
  command({
    names: ['cost'],
    summary: 'Show what jobs have used and cost: useful, lost, idle',
    usage: '[job]... [--since time] [--until time] [--by group] [filters] [--all] [--csv]',
    about:
      'Without a job it covers the last 30 days of all jobs; with jobs or --name, their whole life. One row per job, most ' +
      'expensive first; --by chooses other rows: user, tag, accelerator, zone or day (in UTC).\n\n' +
      'Dollars are estimates at the list prices of the date in the first line, not a bill. Capacity without a known ' +
      'price is `not priced`, and its columns show hours.\n\n' +
      'USEFUL: the command ran, and its work is kept. LOST: the command ran, and its work since the last ' +
      'checkpoint was lost. SETUP: ready, before ' +
      'the command ran. IDLE: ready without an attempt. KEPT: after the end of the job. WAITING: requested and not ready ' +
      'yet, which is not charged; HOURS and CHIP-HOURS exclude it.\n\n' +
      'Capacity of the TPU emulator is simulated and free; it has its own rows and its own total.',
    examples: [
      ['jobman cost', 'all jobs of the last 30 days, the most expensive first'],
      ['jobman cost 42 43', 'two jobs, since they were created'],
      ['jobman cost --name train', 'all jobs of that name; `jobman cost train` is the newest one'],
      ['jobman cost --by user --tag sweep --accelerator v5e', 'the v5e usage of the jobs of a sweep, by user'],
      ['jobman cost --by user --since 2026-11', 'everyone, since the beginning of November'],
      ['jobman cost --by day --since 2026-10 --until 2026-10 --csv > october.csv', 'one month, for a spreadsheet'],
      ['jobman cost --json | jq -c \'select(.kind == "total") | .lost\'', 'for programs: one object per line'],
    ],
    flags: costFlags,
    args: [jobs],
    load: async () => (await import('../commands/cost.ts')).cost,
  }),
  command({
    names: ['billing'],
    summary: 'Show what Google has billed, and the difference from the estimates',
    usage: '[--since time] [--until time] [--by group]... [--csv]',
    about:
      "Reads Google's billing export in BigQuery, which the setting billing.exportTable names, for whole days in UTC: " +
      'the last 30 days by default. BILLED is the cost after credits, in the currency of the export.\n\n' +
      'jobman assigns charges to a job by the labels of its TPUs. OF JOBS is the sum of these charges in US dollars, ESTIMATE ' +
      'is the estimate of the same days, and DIFFERENCE is OF JOBS minus ESTIMATE. Only days that are complete in the ' +
      'export are compared; Google keeps adding usage for about a day.\n\n' +
      'BigQuery charges for the bytes that a query reads; the last line has their number. BigQuery refuses a query that ' +
      'would read more than billing.maxQueryBytes. Without an export the command shows the estimates; docs/costs.md ' +
      'explains how to switch the export on.',
    examples: [
      ['jobman billing', 'by day, with the difference from the estimates'],
      ['jobman billing --since 2026-11 --by service --by sku', 'what the month consists of'],
      ['jobman billing --by user --since 2026-10 --until 2026-10', 'one month, by the owners of the jobs'],
      ['jobman billing --by day --by service --by job --csv > costs.csv', 'for a spreadsheet'],
      ['jobman billing --json | jq -c \'select(.kind == "total")\'', 'for programs: one object per line'],
    ],
    exitCodes: {
      1: 'a permission is missing, or a query would read more than billing.maxQueryBytes',
      3: 'there is no such table',
      5: 'BigQuery cannot be reached',
    },
    flags: billingFlags,
    load: async () => (await import('../commands/billing.ts')).billing,
  }),
  command({
    names: ['quota'],
    summary: 'Show TPU quotas: limit, use, what can be released, what is left',
    usage: '[--project p] [--zone z]',
    about:
      "One row for each zone, generation and pricing with a limit above 0 or a TPU, in chips. LIMIT is Google's limit " +
      'of the zone, or of its region if that leaves less. USED counts TPUs until they are deleted, including preempted ' +
      'nodes and suspended or failed queued resources. RECLAIMABLE is the part of USED that has ' +
      'stopped (preempted, suspended, failed), is an orphan, or was kept by a finished job and has been idle for ten ' +
      'minutes; the lines below the table name the commands that release it. REQUESTED counts queued resources and ' +
      'jobs that wait. LEFT is LIMIT minus USED and minus queued resources that wait.\n\n' +
      'The projects are those of `jobman tpus`. The command changes nothing.',
    examples: [
      ['jobman quota', 'the projects of your settings and jobs'],
      ['jobman quota --project my-project --zone us-east5-b', 'one zone, including limits of 0'],
      [
        `jobman quota --json | jq -r 'select(.kind == "use") | .holders[].command // empty'`,
        'the commands that release what is reclaimable',
      ],
    ],
    exitCodes: {
      1: 'no limit could be read, because a permission is missing or an API is disabled',
      5: 'no project answered; if at least one answered, the code is 0',
    },
    flags: quotaFlags,
    load: async () => (await import('../commands/quota.ts')).quota,
  }),
  command({
    names: ['prices'],
    summary: "List what accelerators cost: Google's list prices, and your own",
    usage: '[type...] [--zone z]',
    about:
      'A type like v5litepod-16 has a price for each chip-hour and for each hour of the whole slice. Without a type, the ' +
      'command lists every generation. List prices are estimates; the last line names their source and date.\n\n' +
      'The setting `prices` replaces list prices with your own, and adds prices of resource flavors and machines; ' +
      'docs/costs.md shows how. The command does not contact a cloud.',
    examples: [
      ['jobman prices v5litepod-16', 'by region and pricing'],
      ['jobman prices v5e v6e --zone europe-west4-b', 'two generations in one zone'],
      ["jobman prices --json | jq -s 'sort_by(.pricePerChipHourUsd) | .[0]'", 'for programs: one object per line'],
    ],
    exitCodes: { 3: 'there is no such type' },
    flags: pricesFlags,
    args: [
      { name: 'type', summary: 'An accelerator type, a generation, or a flavor or machine of your prices', many: true },
    ],
    load: async () => (await import('../commands/prices.ts')).prices,
  }),
  command({
    names: ['storage'],
    summary: 'List the buckets of your projects: size, growth, location',
    usage: '[--project p] [--exact] [--csv]',
    about:
      'Sizes come from Cloud Monitoring, which measures each bucket once a day. AGE is the age of the newest point; the ' +
      'measurement may be a day older. A bucket that is new or empty is `not measured yet`; a size that could not be read is `?`. 7 DAYS and 30 DAYS are the ' +
      'growth. CLASS is the default class of new objects. Units are powers of 1024.\n\n' +
      '--exact counts the objects instead, with one request for each thousand of them; Ctrl-C ends the count and ' +
      'prints what was counted. A size that begins with `>=` covers only a part of the bucket.\n\n' +
      'The projects are those of `jobman tpus`. A location with `!` is outside the region of a zone that your jobs use.',
    examples: [
      ['jobman storage', 'every bucket, largest first'],
      ['jobman storage --exact --project my-project', 'count the objects now'],
      ['jobman storage --csv', 'for a spreadsheet'],
      ['jobman storage --json | jq -r \'select(.kind == "bucket") | .bucket\'', 'for programs: one object per line'],
    ],
    exitCodes: {
      1: 'no size could be read, because a permission is missing or an API is disabled',
      5: 'no project answered; if the size of at least one bucket is known, the code is 0',
      130: 'interrupted; the buckets are listed as far as they were counted',
    },
    flags: storageFlags,
    load: async () => (await import('../commands/storage.ts')).storage,
  }),
  command({
    names: ['storage checkpoints'],
    summary: 'List the checkpoint folders of the jobs: size, age, and which no job needs',
    usage: '[--all]',
    about:
      'A folder is needed unless all its jobs have succeeded or were deleted, jobman named it itself, and no other job ' +
      'begins from it (job.resume_from). A folder about which something is unknown counts as needed.\n\n' +
      'The command removes nothing: it prints the commands that would. Folders on the disks of TPUs are not listed.',
    examples: [
      ['jobman storage checkpoints', 'folders with files, newest job first'],
      [
        "jobman storage checkpoints --json | jq -r 'select(.needed | not) | .removeCommand'",
        'for programs: the commands that remove what no job needs',
      ],
    ],
    exitCodes: {
      1: 'no folder could be read, because a permission is missing or an API is disabled',
      5: 'no folder could be read, because no project answered',
      130: 'interrupted; unread folders count as needed',
    },
    flags: checkpointsFlags,
    load: async () => (await import('../commands/storage.ts')).checkpoints,
  }),
]);
