// The text of the manifest with line numbers, and its problems at their lines.

import { useRef } from 'preact/hooks';
import type { ManifestProblem } from '../../app/errors.ts';
import { escapeLine, pluralize } from '../../app/format.ts';
import { formatProblems } from '../../schema/problems.ts';
import { manifestFile } from './check.ts';

interface EditorProps {
  readonly text: string;
  /** Null while they are checked. */
  readonly problems: readonly ManifestProblem[] | null;
  /** The check has failed. */
  readonly isUnknown: boolean;
  readonly warnings: readonly ManifestProblem[];
  readonly onInput: (text: string) => void;
}

/** In pixels. Also in create.css. */
const lineHeight = 20;

export function Editor({ text, problems, isUnknown, warnings, onInput }: EditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const count = text.split('\n').length;
  const found = problems ?? [];
  const follow = (): void => {
    if (gutter.current !== null) gutter.current.scrollTop = field.current?.scrollTop ?? 0;
  };
  const goTo = ({ line, column }: ManifestProblem): void => {
    const element = field.current;
    if (element === null || line === null) return;
    const lines = text.split('\n');
    const start = lines.slice(0, line - 1).reduce((length, one) => length + one.length + 1, 0);
    element.focus();
    element.setSelectionRange(start + (column ?? 1) - 1, start + (lines[line - 1]?.length ?? 0));
    element.scrollTop = Math.max(0, (line - 4) * lineHeight);
  };
  return (
    <section aria-label="Manifest">
      <div class="editor">
        <div class="gutter" ref={gutter} aria-hidden="true">
          <pre>{Array.from({ length: count }, (_, index) => index + 1).join('\n')}</pre>
          {[...new Set(found.map(({ line }) => line))].map(
            (line) =>
              line !== null && (
                <span key={line} class="problem-line" style={{ top: `${(line - 1) * lineHeight}px` }}>
                  {line}
                </span>
              ),
          )}
        </div>
        <textarea
          ref={field}
          aria-label="Manifest in YAML"
          aria-invalid={found.length > 0}
          aria-describedby="problems"
          spellcheck={false}
          autocapitalize="off"
          wrap="off"
          value={text}
          onInput={(event) => onInput(event.currentTarget.value)}
          onScroll={follow}
        />
      </div>
      <div id="problems">
        <p role="status" class={found.length > 0 ? 'bad' : 'quiet'}>
          {problems === null
            ? 'Checking…'
            : isUnknown
              ? 'Not checked'
              : found.length === 0
                ? 'No problems'
                : pluralize(found.length, 'problem')}
        </p>
        <ProblemList problems={found} kind="problem" onOpen={goTo} />
        <ProblemList problems={warnings} kind="warning" onOpen={goTo} />
      </div>
    </section>
  );
}

interface ProblemListProps {
  readonly problems: readonly ManifestProblem[];
  readonly kind: 'problem' | 'warning';
  readonly onOpen: (problem: ManifestProblem) => void;
}

/** The lines that `jobman validate` prints. */
function ProblemList({ problems, kind, onOpen }: ProblemListProps) {
  if (problems.length === 0) return null;
  return (
    <ul class="problems" aria-label={kind === 'problem' ? 'Problems' : 'Warnings'}>
      {problems.map((problem) => {
        const { key: path, ...rest } = problem;
        const [text = ''] = formatProblems(manifestFile, [{ ...rest, path }]);
        return (
          <li key={text}>
            <button class="plain" disabled={problem.line === null} onClick={() => onOpen(problem)}>
              {kind === 'warning' && <strong class="warn">warning: </strong>}
              {escapeLine(text)}
            </button>
          </li>
        );
      })}
    </ul>
  );
}
