// tldr, check-rules and completion.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { Evidence } from '../../../core/model/job.ts';
import { answerFor } from '../../../core/decide/recover.ts';
import { presets } from '../../../core/policy/presets.ts';
import type { RuleAnswer, RecoverableReason } from '../../../core/model/spec.ts';
import type { Example } from '../../command.ts';
import { completionScript } from '../../commands/help.ts';
import { shells } from '../../completion/proposals.ts';
import { inColumns } from '../../render/aligned.ts';
import { columnsOf } from '../../screen.ts';
import { requiredText, type TpuCli, type ParsedArguments } from '../command.ts';
import { presets as ruleNames } from '../table/shared.ts';
import { printTable } from '../terminal.ts';

/** A test parses each example as a command line. */
export const cheatSheet: readonly (readonly [heading: string, rows: readonly Example[]])[] = [
  [
    'Begin',
    [
      ['tpu add-user', 'who you are'],
      ['tpu set-cur 1 NAME', 'this folder is your working directory 1'],
      ['tpu find v2 v3 -p', 'which TPUs are free'],
      ['tpu run v2-32-6 NAME', 'run it'],
      ['tpu run v2-32-6 NAME dir=2 lr=0.01 tag=sweep', 'another directory, a config, a tag'],
    ],
  ],
  [
    'Watch',
    [
      ['tpu monitor NAME', 'your jobs as they change'],
      ['tpu check NAME', 'the same once'],
      ['tpu log 101 NAME', 'what the job of window 101 printed'],
      ['tpu news NAME', 'what happened since you last looked'],
    ],
  ],
  [
    'End and go on',
    [
      ['tpu kill w=101 NAME', 'end a job everywhere'],
      ['tpu resume windows=101 NAME', 'go on from its last checkpoint'],
      ['tpu resume windows=101 tpu=v2-32-2 NAME', 'the same on another TPU'],
      ['tpu rerun windows=101 NAME', 'begin it again'],
      ['tpu clean NAME', 'take what is over off the list'],
    ],
  ],
  [
    'When a TPU is in trouble',
    [
      ['tpu describe v2-32-6', 'what it is, and who uses it'],
      ['tpu solve v2-32-6', 'find out what is wrong, and put it right'],
      ['tpu reapply v2-32-6', 'delete it and create it anew'],
    ],
  ],
  [
    'Once',
    [
      ['tpu -a lr config.training.learning_rate NAME', 'a short word for a config: lr=0.01'],
      ['tpu -lta', 'all TPUs with their aliases'],
      ['tpu get-settings NAME', 'your settings'],
      ['tpu check-rules', 'what happens after a preemption or an error'],
    ],
  ],
];

export async function tldr(cli: TpuCli): Promise<number> {
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
  // The answer depends on no other field of a spec.
  const others = { budget: { preemptions: 0, failures: 0 }, delayMs: 0, delayMaxMs: 0, unreachableGraceMs: 0 };
  const rows = ruleNames.map((rule) => ({
    rule,
    answers: ruleColumns.map(([key, , reason, evidence]) => {
      const { then, on } = answerFor({ ...others, preset: rule, rules: presets[rule] }, reason, evidence);
      return [key, formatAnswer(then, on)] as const;
    }),
  }));
  if (cli.json) {
    for (const { rule, answers } of rows) cli.print(JSON.stringify({ rule, ...Object.fromEntries(answers) }));
    return exitCode.ok;
  }
  printTable(cli, [
    ['RULE', ...ruleColumns.map(([, heading]) => heading)],
    ...rows.map(({ rule, answers }) => [rule, ...answers.map(([, words]) => words)]),
  ]);
  cli.note(
    '`pre` is what a job on a preemptible or spot TPU gets unless rule= is said, `pass` what it gets on others.',
  );
  cli.note(
    'A worker that has fallen silent, and a call between workers that took too long, are answered as a GRPC error is.',
  );
  return exitCode.ok;
}

function formatAnswer(then: RuleAnswer['then'], on: RuleAnswer['on']): string {
  if (then === 'done') return 'done';
  if (then === 'fail') return 'nothing';
  return on === 'new' ? `reapply, ${then}` : then;
}

export async function completion(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const word = requiredText(args, 'shell');
  const shell = shells.find((one) => one === word);
  if (shell === undefined) {
    throw new JobmanError(`\`${word}\` is no shell that is known here: ${shells.join(', ')}.`, exitCode.usage);
  }
  cli.io.stdout.write(completionScript(shell, 'tpu'));
  return exitCode.ok;
}
