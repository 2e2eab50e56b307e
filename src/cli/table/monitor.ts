import { phases } from '../../core/decide/phase.ts';
import { command, grouped } from '../command.ts';
import { jobRefs } from '../completion/proposals.ts';
import { boolFlag, valueFlag, stringFlag } from '../flags.ts';
import { parseCount, parseDuration } from '../parse.ts';
import {
  job,
  jobName,
  jobs,
  listFlags,
  logsFlags,
  plotFlags,
  contextFlags,
  queueFlags,
  topFlags,
  reportFlags,
  tpusFlags,
  verdictExitCodes,
  zonesFlags,
} from './flags.ts';

export const monitor = grouped('Monitor', [
  command({
    names: ['list', 'ls', 'ps'],
    summary: 'List active jobs and the 50 most recently finished, newest first',
    usage: '[--user u] [--phase p]... [other filters] [--limit n] [--all] [-n namespace | -A] [--watch]',
    about:
      'A job is finished once it has succeeded, failed, been stopped or been cancelled.\n\n' +
      `Phases: ${phases.join(', ')}.\n\n` +
      'With --watch the arrow keys select a job; enter shows its details, w explains its phase, l shows its log, and ' +
      '? lists all keys.',
    examples: [
      ['jobman list', 'active and recently finished jobs'],
      ['jobman list --phase failed --phase recovering --name "vit-*"', 'filter by phase and name'],
      ['jobman list --since 7d --zone us-east5-b --limit 20', 'the 20 newest jobs of a week in a zone'],
      ['jobman list --all --json | jq -r .id', 'for programs: one object per line'],
      ['jobman list -A', 'include the Jobs of every namespace of the cluster'],
      ['jobman list --watch', 'keep updating until q'],
    ],
    flags: listFlags,
    load: async () => (await import('../commands/list.ts')).list,
  }),
  command({
    names: ['show', 'details', 'describe', 'status', 'get'],
    summary: 'Show one job: attempts, workers, capacity',
    usage: '[job]...',
    about: 'Without a job it lists all jobs, as `jobman list` does.',
    examples: [
      ['jobman show 42', 'the job 000042'],
      ['jobman show vit-l16', 'the newest job of this name'],
      ['jobman show 42 --json | jq .attempts', 'its attempts, for programs'],
      ['jobman show -j listing --namespace vision', 'a job of a Kubernetes cluster, with its pods and events'],
    ],
    flags: { jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/show.ts')).show,
  }),
  command({
    names: ['logs', 'log'],
    summary: 'Print the output of the workers',
    usage: '[job] [-f] [-w worker] [--step name] [--attempt n] [--tail lines] [--since time] [--grep pattern]',
    about:
      'Without a job it prints the log of the newest job.\n\n' +
      'Each line begins with the number of its worker, unless --worker chooses one. A terminal shows identical ' +
      'lines of several workers once, and cuts long lines. Control characters are made visible; --raw prints ' +
      'the bytes unchanged.',
    examples: [
      ['jobman logs 42 -f', 'follow all workers, across preemptions, until the job has finished'],
      ['jobman logs 42 -w 3 --tail 100', 'the last hundred lines of worker 3'],
      ['jobman logs 42 --step docker', 'the output of a setup step'],
      ['jobman logs 42 --step job', 'the log of the job itself; `tpu` has the requests to the cloud'],
      ['jobman logs 42 --first-error', 'the first error, without the errors that it caused'],
      ['jobman logs 42 --attempt 1 --grep "loss|nan"', 'lines of an earlier attempt'],
    ],
    flags: logsFlags,
    args: [jobs],
    load: async () => (await import('../commands/logs.ts')).logs,
  }),
  command({
    names: ['history'],
    summary: 'List every event of a job',
    usage: '<job>... [--timeline]',
    examples: [
      ['jobman history 42', 'one line per event'],
      ['jobman history 42 --timeline', 'with all attempts on one line above'],
      ['jobman history 42 --json', 'one object per event'],
    ],
    flags: { timeline: boolFlag('Draw the attempts on a time axis'), jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/show.ts')).history,
  }),
  command({
    names: ['why'],
    summary: 'Explain the phase of a job: evidence, rule, next step',
    usage: '<job>... [--explain]',
    examples: [
      ['jobman why 42', 'one sentence, its evidence, and the time of the next check'],
      ['jobman why 42 --explain', 'also the situation that the controller saw'],
    ],
    flags: { explain: boolFlag('Also name the situation that the controller saw last'), jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/show.ts')).why,
  }),
  command({
    names: ['replay'],
    summary: 'List every decision of the controller about a job, or decide them again',
    usage: '<job>... [--attempt n] [--decide]',
    about:
      'Prints each recorded pass of the controller: its situation, as in `jobman why --explain`; what the controller saw that ' +
      'it had not seen before; what it decided; and the time of the next pass. Commands of users are between them.\n\n' +
      'With --decide this version of jobman decides each pass again, and only those are printed that it decides ' +
      'differently, with the difference. Nothing is contacted or changed.\n\n' +
      'The settings `passes.days` and `passes.count` limit how many passes are recorded.',
    examples: [
      ['jobman replay 42', 'all recorded passes'],
      ['jobman replay 42 --attempt 3', 'only those of one attempt'],
      ['jobman replay 42 --decide', 'after an upgrade: would it act differently now?'],
      ["jobman replay 42 --json | jq -r '[.at, .situation] | @tsv'", 'one object per pass'],
    ],
    exitCodes: { 1: 'with --decide: this version decides a pass differently' },
    flags: {
      attempt: valueFlag('Only the passes of this attempt', 'n', parseCount),
      decide: boolFlag('Decide again, and print only the passes that are decided differently'),
      jobName,
      ...contextFlags,
    },
    args: [jobs],
    load: async () => (await import('../commands/show.ts')).replay,
  }),
  command({
    names: ['plot'],
    summary: 'Draw the loss and the throughput of a job',
    usage: '<job> [metric]... [--attempt n] [-w worker] [--since time] [--watch]',
    about:
      "Draws metrics that the job's program prints, such as `step 100 loss 0.3`, or reports with `jobman mark`. " +
      'By default it draws the loss, and the throughput in steps per second. All charts share one axis: the ' +
      'step if the program prints it, otherwise the time. A number below the axis is the attempt that begins there. A ' +
      'line above or below a chart counts the points that are too far away to be drawn.\n\n' +
      'With --json it prints one object for each point. A long curve is reduced to the lowest and the highest point of ' +
      'each stretch.',
    examples: [
      ['jobman plot 42', 'the loss and the throughput'],
      ['jobman plot 42 acc lr --attempt 3', 'two metrics of one attempt'],
      ['jobman plot 42 --watch', 'keep drawing until q'],
      ['jobman plot 42 --json | jq -r .metric | sort -u', 'the names of all metrics'],
      ["jobman plot 42 loss --json --all | jq -r '[.step, .value] | @tsv'", 'every point, for programs'],
    ],
    exitCodes: { 3: 'there is no such job, attempt, worker or metric, or the program has printed no metrics' },
    flags: plotFlags,
    args: [{ name: 'job', summary: 'The job, then the metrics', many: true, propose: jobRefs }],
    load: async () => (await import('../commands/plot.ts')).plot,
  }),
  command({
    names: ['mark'],
    summary: "In a job's program: report metrics for `jobman plot`",
    usage: '<name=value>...',
    about:
      'Appends one line with the time to the metrics file of the attempt. The program of every job finds this command on ' +
      'its PATH, even on workers without jobman, and its path in JOBMAN_MARK. `step` is the position in the work.\n\n' +
      'The command names a wrong pair on standard error and leaves it out; it reports the others.',
    examples: [
      ['jobman mark step=100 loss=0.3', 'the loss at step 100'],
      ['jobman mark step=100 total_steps=9000 lr=1e-4', 'with the last step, for the progress in `jobman show`'],
    ],
    exitCodes: {
      1: 'the metrics file cannot be written',
      2: 'no pair is name=number, or the command runs outside of a job; nothing is reported',
    },
    args: [{ name: 'metric', summary: 'name=value', many: true }],
    load: async () => (await import('../commands/mark.ts')).mark,
  }),
  command({
    names: ['report'],
    summary: 'Write a page about a job, or an archive for a bug report',
    usage: '<job> [--output file] [--bundle] [--replace] | --bundle',
    about:
      'The page is one HTML file that needs no network: the timeline of the job, its attempts and why each ended, the ' +
      'cost, metrics, the last lines of its logs, the history, the manifest, and the commit and changes of job.workdir. ' +
      'Its default name is jobman-report-<job>.html in the current folder.\n\n' +
      'With --bundle it writes an archive instead (jobman-report-<job>.tar.gz), with the same page, the job, its events and ' +
      'its recorded passes as JSON, the end of each log, the settings and the versions. Without a job the archive describes only jobman ' +
      'itself.\n\n' +
      'jobman removes from both the secrets that it knows or recognises (docs/troubleshooting.md). For a job in a cluster ' +
      'the command contacts that cluster; it contacts no other server.',
    examples: [
      ['jobman report 42', 'write jobman-report-000042.html'],
      ['jobman report vit --output vit.html --replace', 'another file, which may exist'],
      ['jobman report 42 --bundle', 'an archive for a bug report'],
      ['jobman report --bundle', 'about jobman itself, without a job'],
    ],
    exitCodes: { 4: 'the file exists; see --replace' },
    flags: reportFlags,
    args: [job],
    load: async () => (await import('../commands/report.ts')).report,
  }),
  command({
    names: ['diff', 'compare'],
    summary: 'Compare two jobs or attempts: result, manifest, code, environment, hosts',
    usage: '<job[#attempt]> <job[#attempt]>',
    about:
      'Prints only what differs, in sections: the phase and the cost of the job, the result of the attempt with its ' +
      'metrics, the hosts, the manifest, the environment, the recovery rules, the files of job.files, and the commit and ' +
      'files of job.workdir. Without #attempt it compares the newest attempts; with it, the cost is that of the attempt.\n\n' +
      'The text shows at most 40 lines of each difference; --json has all of them. If the manifests are equal, the ' +
      'command also compares the resolved manifests. jobman keeps the files of only the newest copy of a working directory; for earlier ' +
      'copies it compares the commit and the uncommitted changes. It never compares secrets.\n\n' +
      'For jobs in a cluster it compares the Job objects, and the metrics in the log of the newest pod.',
    examples: [
      ['jobman diff 42 43', 'the newest attempts of two jobs'],
      ["jobman diff '42#1' '42#3'", 'two attempts of one job'],
      ['jobman diff train train-2', 'two jobs of a cluster'],
      [
        'jobman diff 42 43 --json | jq -r \'select(.section == "environment") | .key\'',
        'for programs: one difference per line',
      ],
    ],
    exitCodes: { 3: 'a job or an attempt does not exist' },
    flags: contextFlags,
    args: [{ name: 'job', summary: 'Id or name, and #n for attempt n', many: true, propose: jobRefs }],
    load: async () => (await import('../commands/diff.ts')).diff,
  }),
  command({
    names: ['wait'],
    summary: 'Wait until jobs have finished and exit with their result',
    usage: '<job>... [--timeout 2h]',
    about:
      'On a terminal it shows what each job waits for; elsewhere each change is a line on standard error. -q prints only the results.',
    examples: [
      ['jobman wait 42 && jobman create next.yaml', 'create the next job once this one has succeeded'],
      ['jobman wait 42 43 --timeout 8h', 'at most eight hours for both'],
    ],
    exitCodes: { ...verdictExitCodes, 1: 'a job failed, was stopped or was cancelled, or the timeout passed' },
    flags: {
      timeout: valueFlag('Stop waiting after this time; the job keeps running', 'time', parseDuration),
      jobName,
      ...contextFlags,
    },
    args: [jobs],
    load: async () => (await import('../commands/wait.ts')).wait,
  }),
  command({
    names: ['queue'],
    summary: 'List the jobs that wait for capacity: slots of hosts, TPUs, Kubernetes',
    usage: '[-n namespace | -A] [--context name] [--publish]',
    about:
      'Jobs on your own machines wait for a slot of each host, TPU jobs for capacity in their zone.\n\n' +
      'If a Kubernetes cluster is configured, the command also counts its active jobs by flavor and by the ' +
      'resources of one pod, and lists its waiting jobs with their positions. YOURS counts the jobs of ' +
      'your namespace.\n\n' +
      'Users who may not list the jobs of the whole cluster see the list that --publish writes into a ' +
      'ConfigMap; deploy/kubernetes/ has a CronJob for that.',
    examples: [
      ['jobman queue', 'all queues'],
      ['jobman queue --json | jq -c \'select(.kind == "queued")\'', 'for programs: the jobs that wait'],
      ['jobman queue --publish', 'write the list for all users; requires the right to list all jobs'],
    ],
    exitCodes: { 1: 'you may not list even the jobs of your namespace', 5: 'the cluster cannot be reached' },
    flags: queueFlags,
    load: async () => (await import('../commands/queue.ts')).queue,
  }),
  command({
    names: ['top', 'sinfo'],
    summary: 'Show what is used, by whom, and what each job and worker does now',
    usage: '[--user u] [--zone z] [--tag t] [--sort order] [--interval 5s] [job]...',
    about:
      'The upper table has the TPUs of each zone and generation, in chips: LIMIT is the quota that was read last, HELD what exists, BUSY ' +
      'what runs a command of a job, IDLE what is ready without one, IDLE FOR the longest time of one of these, WAIT ' +
      "what is requested, ENDED what Google has taken and still counts, if there is any, AGE the age of the cloud's answer. BY names the owners, including other people. The lower table has the active jobs, and the TPUs without a job.\n\n" +
      'On a terminal the command redraws both tables in place: s sorts, u shows only your jobs, z only the zone of the selected line, ' +
      'Enter the workers of a job, q quits. Elsewhere it prints once, with the workers of every job.\n\n' +
      'CPU%, MEM%, DISK% and NET are those of the whole worker; for a job on this machine, CPU% and MEM% are those of ' +
      'its own processes. Of several workers, CPU% and DUTY are the mean, MEM% and DISK% the largest, NET the sum, in bytes ' +
      'per second. LOG is the age of the newest output of the worker that has been silent for the longest time. DUTY is the ' +
      'percentage of time in which the TPU chips compute, as libtpu reports it on the worker. STEP and STEP/S are the ' +
      'progress of the slowest worker. IDLE is the time for which the TPU has been ready without a command. `-` means ' +
      'not known.\n\n' +
      'A narrow terminal loses first the columns without any value, then NET, DISK%, ZONE, USER, ACCELERATOR, STEP/S, STEP, MEM%, IDLE, DUTY. ' +
      'A worker that does not answer is `silent`: its last figures stay. For a pod, CPU% is a percentage of its CPU request, and ' +
      'MEM% one of its memory limit, if the cluster serves the resource metrics API.',
    examples: [
      ['jobman top', 'all jobs, until q'],
      ['jobman top 42 43', 'two jobs with their workers'],
      [
        'jobman top --json | jq -c \'select(.kind == "worker" and .silentSinceAt != null)\'',
        'workers that do not answer',
      ],
      ['jobman top --json --interval 1m >>usage.jsonl', 'a record of the usage'],
    ],
    exitCodes: { 3: 'there is no such job', 4: 'the job is not active, or several jobs have the name' },
    flags: topFlags,
    args: [jobs],
    load: async () => (await import('../commands/top.ts')).top,
  }),
  command({
    names: ['tpus'],
    summary: 'List TPUs in your projects: owner, idle time, cost',
    usage: '[--all] [--zone z] [--project p] | --forget project',
    about:
      'Lists every node and queued resource in the projects and zones of the settings, the jobs and the flags. ' +
      'A project without a zone is listed with all its zones. The most expensive idle TPU comes first.\n\n' +
      "STATE is Google's. OWNER is the `owner` in tpu.metadata, otherwise the user of the job or of `tpu " +
      'apply`. An `orphan` was created by this jobman, and no job owns it: `jobman gc` releases it. IDLE is the ' +
      'time since jobman last ran a command there; `?` if unknown.',
    examples: [
      ['jobman tpus', 'used and idle TPUs'],
      ['jobman tpus --all --project my-project', 'every zone of a project'],
      ['jobman tpus --json | jq -r \'select(.owner.kind == "none") | .resource\'', 'for programs: one object per line'],
    ],
    exitCodes: {
      4: 'with --forget: a job or a setting still uses the project',
      5: 'no project answered; if at least one answered, its TPUs are listed and the code is 0',
    },
    flags: tpusFlags,
    load: async () => (await import('../commands/tpus.ts')).tpus,
  }),
  command({
    names: ['zones'],
    summary: 'List zones: last answer of the cloud, last TPU granted, your jobs there',
    usage: '[--accelerator a] [--project p]',
    about:
      'One row for each zone, accelerator type and pricing that your jobs have requested. LAST ANSWER is the ' +
      'newest answer to any job. GRANTED is the time of the last TPU, and how long its job had waited.\n\n' +
      'A job with tpu.alternatives skips a row that had no capacity for another job in the last five minutes, ' +
      'unless no other alternative is left.\n\n' +
      'The command does not contact a cloud.',
    examples: [
      ['jobman zones', 'every zone, type and pricing that a job has requested'],
      ['jobman zones --accelerator v5e', 'every size of one generation'],
      [
        'jobman zones --json | jq -r \'select(.lastAnswer.answer == "ready") | .zone\'',
        'for programs: one object per line',
      ],
    ],
    flags: zonesFlags,
    load: async () => (await import('../commands/zones.ts')).zones,
  }),
  command({
    names: ['images'],
    summary: 'List the images of the Harbor registry and their tags',
    usage: '[--refresh]',
    about:
      'Lists the images of harbor.project, or of every project that you may see if the setting is empty. ' +
      'Answers of the last ten minutes are reused and shown with their age. docs/harbor.md explains how to log ' +
      'in.',
    examples: [
      ['jobman images', 'each image with its tags, newest first'],
      ['jobman images --refresh --json | jq -r .name', 'contact the registry; one object per line'],
    ],
    exitCodes: {
      1: 'you may not list the project',
      5: 'the registry cannot be reached or does not accept the login',
    },
    flags: { refresh: boolFlag('Contact the registry even if a recent answer is stored') },
    load: async () => (await import('../commands/images.ts')).images,
  }),
  command({
    names: ['image-details'],
    summary: 'Show the description and tags of an image',
    usage: '-i <name[:tag|@digest]> [--refresh]',
    about:
      'The description belongs to the image, not to a tag. A tag or a digest limits the table to it.\n\n' +
      'jobman searches the project of the settings (harbor.project). Without this setting, the first part of ' +
      'the name is the project.',
    examples: [
      ['jobman image-details -i ubuntu_python_tensorflow', 'the description and the newest tags'],
      ['jobman image-details -i lab/trainer:3.1cuda11', 'one tag of an image in the project lab'],
    ],
    exitCodes: { 3: 'there is no such image or tag' },
    flags: {
      image: stringFlag('The image', 'image', 'i'),
      refresh: boolFlag('Contact the registry even if a recent answer is stored'),
    },
    args: [{ name: 'image', summary: 'The image' }],
    load: async () => (await import('../commands/images.ts')).imageDetails,
  }),
  command({
    names: ['resources-flavors'],
    summary: 'List the resource flavors for Kubernetes jobs',
    about:
      'Flavors are settings (job.resources.predefined); the command does not contact a cluster. CPU and MEMORY ' +
      'are requests, with the limit if it differs. GPUS is the sum of all kinds.',
    examples: [
      ['jobman resources-flavors', 'the flavors of the settings; the default is marked'],
      ['jobman -s lab.json resources-flavors --json', 'with another settings file, one object per line'],
    ],
    load: async () => (await import('../commands/resources-flavors.ts')).resourcesFlavors,
  }),
]);
