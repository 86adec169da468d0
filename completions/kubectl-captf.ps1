# PowerShell completion of kubectl-captf. Add it to $PROFILE.
# The words typed so far are handed to the program, which knows the candidates.

Register-ArgumentCompleter -Native -CommandName 'kubectl-captf' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    if ($wordToComplete -eq '') { $words += '' }
    & kubectl-captf __complete -- @words 2>$null | Where-Object { $_ -notmatch '^:' } | ForEach-Object {
        $value, $description = $_ -split [char]9, 2
        if (-not $description) { $description = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $description)
    }
}
