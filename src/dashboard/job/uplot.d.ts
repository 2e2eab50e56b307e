/** The part of uPlot that a plot uses. */
declare module 'uplot' {
  interface Axis {
    readonly stroke: string;
    readonly grid: { readonly stroke: string; readonly width: number };
    readonly ticks: { readonly stroke: string };
    readonly size?: number;
    /** The least distance of two labels, in pixels. */
    readonly space?: number;
    readonly values: (plot: UPlot, splits: readonly number[]) => readonly string[];
  }

  interface Series {
    readonly stroke?: string;
    readonly width?: number;
    readonly spanGaps?: boolean;
    readonly points?: { readonly size: number };
  }

  interface Options {
    readonly width: number;
    readonly height: number;
    readonly legend: { readonly show: boolean };
    readonly cursor: { readonly drag: { readonly x: boolean; readonly y: boolean } };
    readonly scales: { readonly x: { readonly time: boolean } };
    readonly axes: readonly Axis[];
    readonly series: readonly Series[];
    readonly hooks: { readonly draw: readonly ((plot: UPlot) => void)[] };
  }

  /** The x values, and for each series as many y values. */
  type Data = readonly (readonly (number | null | undefined)[])[];

  export default class UPlot {
    constructor(options: Options, data: Data, element: HTMLElement);
    readonly ctx: CanvasRenderingContext2D;
    /** In pixels of the canvas. */
    readonly bbox: { readonly left: number; readonly top: number; readonly width: number; readonly height: number };
    valToPos(value: number, scale: 'x', isCanvas: boolean): number;
    setSize(size: { readonly width: number; readonly height: number }): void;
    destroy(): void;
  }
}
