// Package lockgolangci makes the analyzers of lockgen a linter of golangci-lint, named lockgen. golangci-lint builds it
// in as a module plugin; README.md has the two files for that.
package lockgolangci

import (
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/lockgen/lockgen/cmd/lockgen/vet"
)

// name is the name of the linter in a configuration of golangci-lint.
const name = "lockgen"

func init() { register.Plugin(name, newPlugin) }

type plugin struct{}

// newPlugin makes the linter. It has no settings.
func newPlugin(any) (register.LinterPlugin, error) { return plugin{}, nil }

// BuildAnalyzers returns the analyzers of package vet.
func (plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) { return vet.Analyzers(), nil }

// GetLoadMode declares that the analyzers need types.
func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
