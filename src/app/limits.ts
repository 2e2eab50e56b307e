// Limits: the sentences about the limits of users. core/policy/limits.ts has the rules.

import type { Instant } from '../core/model/time.ts';
import type { UserName } from '../core/model/user.ts';
import type { LimitProblem } from '../core/policy/limits.ts';
import { firstJobs, formatList, pluralize } from './format.ts';
import { formatBudgetSpent } from './grants.ts';

const maxNamedJobs = 5;

/** A sentence without its full stop. */
export function describeLimit(user: UserName, problem: LimitProblem, now: Instant): string {
  switch (problem.kind) {
    case 'jobs':
      return `${user} has ${pluralize(problem.unfinished, 'unfinished job')}, and ${pluralize(problem.allowed, 'is allowed', 'are allowed')}`;
    case 'chips': {
      const { wanted, allowed, held, holders } = problem;
      if (wanted === null)
        return `the number of its chips is unknown, and ${pluralize(allowed, 'is allowed', 'are allowed')} for ${user}`;
      const used = held === 0 ? '' : ` (${held} used by ${formatList(firstJobs(holders, maxNamedJobs))})`;
      return `it has ${pluralize(wanted, 'chip')}, and ${pluralize(allowed, 'is allowed', 'are allowed')} for ${user}${used}`;
    }
    case 'project':
      return `${user} may not use the project ${problem.project}: ${formatAllowed(problem.allowed)}`;
    case 'host':
      return `${user} may not use the host ${problem.host}: ${formatAllowed(problem.allowed)}`;
    case 'usd_per_day':
      return `the dollars of ${user} for today are used up: ${formatBudgetSpent(problem.spending, now)}`;
  }
}

export function formatAllowed(names: readonly string[]): string {
  return names.length === 0 ? 'none is allowed' : `allowed ${names.length === 1 ? 'is' : 'are'} ${formatList(names)}`;
}
