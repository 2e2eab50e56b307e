// tldr, check-rules and completion.

import type { RuleOutput } from '../../outputs.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { Evidence } from '../../../core/model/job.ts';
import { answerFor } from '../../../core/decide/recover.ts';
import { presets } from '../../../core/policy/presets.ts';
import type { RuleAnswer, RecoverableReason } from '../../../core/model/spec.ts';
import type { Example } from '../../command.ts';
import { completionScript } from '../../commands/help.ts';
import { shells } from '../../completion/proposals.ts';
import { refuseJson } from '../../context.ts';
import { inColumns } from '../../render/aligned.ts';
import { columnsOf } from '../../screen.ts';
import { requiredText, type TpuCli, type ParsedArguments } from '../command.ts';
import { presets as ruleNames } from '../table/shared.ts';
import { printTable } from '../terminal.ts';

/** A test parses each example as a command line. */
export const cheatSheet: readonly (readonly [heading: string, rows: readonly Example[]])[] = [
  [
    'Start',
    [
      ['tpu add-user', 'add yourself as a user'],
      ['tpu set-cur 1 NAME', 'make this folder your working directory 1'],
      ['tpu find v2 v3 -p', 'find a free TPU'],
      ['tpu run v2-32-6 NAME', 'run your working directory on it'],
      ['tpu run v2-32-6 NAME dir=2 lr=0.01 tag=deep', 'another directory, with a config and a tag'],
    ],
  ],
  [
    'Watch',
    [
      ['tpu monitor NAME', 'show your jobs until you press q'],
      ['tpu check NAME', 'show your jobs once'],
      ['tpu log 101 NAME', 'print the output of window 101'],
      ['tpu news NAME', 'show what happened since the last `tpu news`'],
    ],
  ],
  [
    'Kill, resume, clean up',
    [
      ['tpu kill w=101 NAME', 'kill a job on all workers'],
      ['tpu resume windows=101 NAME', 'resume it from its last checkpoint'],
      ['tpu resume windows=101 tpu=v2-32-2 NAME', 'resume it on another TPU'],
      ['tpu rerun windows=101 NAME', 'run it again from the beginning'],
      ['tpu clean NAME', 'remove finished jobs from the list'],
    ],
  ],
  [
    'Repair a TPU',
    [
      ['tpu describe v2-32-6', 'show its state, users and problems'],
      ['tpu solve v2-32-6', 'find its problems and repair them'],
      ['tpu reapply v2-32-6', 'delete it and create it again'],
    ],
  ],
  [
    'Set up',
    [
      ['tpu -a lr config.training.learning_rate NAME', 'add a config alias: lr=0.01'],
      ['tpu list', 'list the TPUs with their aliases'],
      ['tpu get-settings NAME', 'show your settings'],
      ['tpu check-rules', 'show what follows a preemption or a failure'],
    ],
  ],
];

export async function tldr(cli: TpuCli): Promise<number> {
  refuseJson(cli.json, '`tpu tldr`');
  const columns = columnsOf(cli.io.stdout);
  const lines = cheatSheet.flatMap(([heading, rows], index) => [
    ...(index === 0 ? [] : ['']),
    heading,
    ...inColumns(rows, columns),
  ]);
  for (const line of lines) cli.print(line);
  return exitCode.ok;
}

const ruleColumns: readonly (readonly [key: string, heading: string, reason: RecoverableReason, evidence: Evidence])[] =
  [
    ['preempted', 'TPU PREEMPTED', 'preempted', { message: '' }],
    ['grpc', 'GRPC ERROR', 'command_failed', { message: '', pattern: 'grpc' }],
    ['failed', 'OTHER FAILURES', 'command_failed', { message: '' }],
    ['succeeded', 'SUCCESS', 'succeeded', { message: '' }],
  ];

export async function checkRules(cli: TpuCli): Promise<number> {
  const rows = ruleNames.map((rule) => ({
    rule,
    answers: ruleColumns.map(([, , reason, evidence]) => answerFor({ rules: presets[rule] }, reason, evidence)),
  }));
  if (cli.json) {
    for (const { rule, answers } of rows) {
      const byEnd = Object.fromEntries(ruleColumns.map(([key], index) => [key, answers[index]]));
      cli.printJson({ rule, ...(byEnd as Omit<RuleOutput, 'rule'>) });
    }
    return exitCode.ok;
  }
  printTable(cli, [
    ['RULE', ...ruleColumns.map(([, heading]) => heading)],
    ...rows.map(({ rule, answers }) => [rule, ...answers.map(({ then, on }) => formatAnswer(then, on))]),
  ]);
  cli.note('The default rule is `pre` on a preemptible or spot TPU, and `pass` on any other TPU.');
  cli.note('Unreachable workers and timeouts of calls between workers count as GRPC errors.');
  return exitCode.ok;
}

function formatAnswer(then: RuleAnswer['then'], on: RuleAnswer['on']): string {
  if (then === 'done') return 'done';
  if (then === 'fail') return 'nothing';
  return on === 'new' ? `reapply, ${then}` : then;
}

export async function completion(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const name = requiredText(args, 'shell');
  const shell = shells.find((one) => one === name);
  if (shell === undefined)
    throw new JobmanError(`Unknown shell \`${name}\`. Supported: ${shells.join(', ')}.`, exitCode.usage);
  refuseJson(cli.json, '`tpu completion`');
  cli.io.stdout.write(completionScript(shell, 'tpu'));
  return exitCode.ok;
}
