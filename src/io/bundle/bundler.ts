/**
 * Bundles a module and its imports, except this package, into one JavaScript file with a source map. Runs none of the
 * code.
 */
import { dirname, relative, resolve } from 'node:path';
import type { InputOptions, OutputOptions } from 'rolldown';
import { RemusterError } from '../../base/errors.ts';

/** Entries of this package, which every node provides; a bundle imports them by name. */
const providedEntries = ['remuster', 'remuster/client'] as const;

/** Prefix of the author's source files in stack traces. */
export const deployedSourceScheme = 'deployed:';

const reportedErrorsMax = 5;

type BundlerError = {
  readonly code?: string;
  readonly message: string;
  readonly loc?: { readonly line: number; readonly column: number; readonly file?: string };
};

/** Fails with BUNDLE_INVALID, which names files and lines. The same sources give the same bytes. */
export async function bundleModule(file: string): Promise<Uint8Array> {
  const path = resolve(file);
  const folder = dirname(path);
  const warnings: BundlerError[] = [];
  let output: readonly { readonly type: string; readonly code?: string }[];
  try {
    output = await bundle(inputOf(path, folder, warnings), outputOptions);
  } catch (error) {
    throw invalid(errorsOf(error), folder);
  }
  // The bundler only warns, because a package may be installed later. Nothing is installed beside a deployed module.
  const missing = warnings.filter(({ code }) => code === 'UNRESOLVED_IMPORT');
  if (missing.length > 0) throw invalid(missing, folder);
  const [chunk, ...more] = output;
  if (chunk?.code === undefined || more.length > 0)
    throw new RemusterError('BUNDLE_INVALID', `${file} cannot be bundled into one file of code`);
  return new TextEncoder().encode(chunk.code);
}

async function bundle(
  input: InputOptions,
  output: OutputOptions,
): Promise<readonly { readonly type: string; readonly code?: string }[]> {
  const { rolldown } = await import('rolldown');
  const build = await rolldown(input);
  try {
    return (await build.generate(output)).output;
  } finally {
    await build.close();
  }
}

function inputOf(path: string, folder: string, warnings: BundlerError[]): InputOptions {
  return {
    input: path,
    cwd: folder,
    platform: 'node',
    external: [...providedEntries],
    logLevel: 'warn',
    onLog: (_level, log) => void warnings.push(log),
  };
}

const outputOptions: OutputOptions = {
  format: 'esm',
  codeSplitting: false,
  minify: false,
  sourcemap: 'inline',
  sourcemapExcludeSources: true,
  sourcemapPathTransform: (source) => `${deployedSourceScheme}${source.replace(/^(?:\.\.?\/)+/, '')}`,
};

function errorsOf(error: unknown): readonly BundlerError[] {
  const { errors } = error as { readonly errors?: unknown };
  if (Array.isArray(errors) && errors.length > 0) return errors as readonly BundlerError[];
  return [{ message: error instanceof Error ? error.message : String(error) }];
}

function invalid(errors: readonly BundlerError[], folder: string): RemusterError {
  const lines = errors.slice(0, reportedErrorsMax).map((error) => errorText(error, folder));
  const rest = errors.length - lines.length;
  return new RemusterError('BUNDLE_INVALID', [...lines, ...(rest > 0 ? [`and ${rest} more`] : [])].join('; '));
}

/** `folder/file.ts:3:7: message`. Only the first line of the message: the bundler adds an excerpt of the source. */
function errorText({ message, loc }: BundlerError, folder: string): string {
  const [first = ''] = message.split('\n');
  const text = first.replace(/^\[\w+\] /, '');
  if (loc === undefined) return text;
  const file = loc.file === undefined ? '' : relative(folder, loc.file);
  return `${file}:${loc.line}:${loc.column + 1}: ${text}`;
}
