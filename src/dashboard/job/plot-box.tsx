// A plot in a page. uPlot is loaded when it is shown.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { escapeLine } from '../../app/format.ts';
import { colours } from '../colours.ts';
import { Failure } from '../parts/messages.tsx';
import { errorLines } from '../session.ts';
import type { PlotOptions, ShownPlot } from './plot.ts';

/** `label`: for screen readers. The plot is drawn again when the tracks, the format or the colours change. */
export function PlotBox({ label, tracks, format }: PlotOptions & { readonly label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const failure = useSignal<readonly string[] | null>(null);
  const scheme = colours.value;
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    let isOver = false;
    let plot: ShownPlot | undefined;
    const observer = new ResizeObserver(() => plot?.resize(element.clientWidth));
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const show = async (): Promise<void> => {
      const { showPlot } = await import('./plot.ts');
      if (isOver) return;
      plot?.remove();
      plot = showPlot(element, { tracks, format });
      observer.observe(element);
    };
    const start = (): void => void show().catch((error: unknown) => (failure.value = errorLines(error)));
    start();
    dark.addEventListener('change', start);
    return () => {
      isOver = true;
      observer.disconnect();
      dark.removeEventListener('change', start);
      plot?.remove();
    };
  }, [tracks, format, scheme]);
  return (
    <>
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
      <div class="plot" ref={box} role="img" aria-label={escapeLine(label)} />
    </>
  );
}
