//! How an operation with a backward pass of its own joins burn's automatic differentiation.

use std::fmt::Debug;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Flex,
};
use burn::tensor::Tensor;

/// A tensor in host memory, without a gradient.
pub(super) type Values = FloatTensor<Flex>;

/// The same with its place in the graph.
type Tracked = FloatTensor<Autodiff<Flex>>;

/// An operation of `N` float tensors on the CPU.
pub(super) trait Operation<const N: usize>: Clone + Debug + Send + 'static {
    /// What the backward pass needs.
    type Saved: Clone + Debug + Send + 'static;

    /// The result, and what to keep of it.
    fn forward(&self, inputs: [Values; N]) -> (Values, Self::Saved);

    /// Gradients of the inputs from that of the result; of those not `wanted`, none need be given.
    fn backward(
        &self,
        saved: Self::Saved,
        gradient: Values,
        wanted: [bool; N],
    ) -> [Option<Values>; N];
}

/// Applies an operation; records it if an input belongs to a graph.
///
/// Callers have checked that the tensors are on the CPU ([`crate::ops::is_host`]).
pub(super) fn apply<O: Operation<N>, const N: usize, const D: usize>(
    operation: &O,
    inputs: [DispatchTensor; N],
) -> Tensor<D> {
    let context = inputs.iter().map(|input| input.autodiff).fold(
        DispatchAutodiffContext::Disabled,
        DispatchAutodiffContext::merge,
    );
    let kind = if context == DispatchAutodiffContext::Disabled {
        let (output, _) = operation.forward(inputs.map(|input| plain(input.kind)));
        DispatchTensorKind::Flex(BackendTensor::Float(output))
    } else {
        let output = record(operation, inputs.map(|input| tracked(input.kind)));
        let output = DispatchTensorKind::Flex(BackendTensor::Autodiff(output));
        DispatchTensorKind::Autodiff(Box::new(output))
    };
    Tensor::from_dispatch(DispatchTensor {
        kind,
        autodiff: context,
    })
}

/// The numbers of a tensor on the CPU, outside of any graph.
pub(super) fn detached<const D: usize>(tensor: Tensor<D>) -> Values {
    plain(tensor.into_dispatch().kind)
}

/// A tensor of these numbers, outside of any graph.
pub(super) fn constant<const D: usize>(values: Values) -> Tensor<D> {
    Tensor::from_dispatch(DispatchTensor {
        kind: DispatchTensorKind::Flex(BackendTensor::Float(values)),
        autodiff: DispatchAutodiffContext::Disabled,
    })
}

fn plain(kind: DispatchTensorKind) -> Values {
    match kind {
        DispatchTensorKind::Flex(BackendTensor::Float(values)) => values,
        other => tracked(other).into_primitive(),
    }
}

fn tracked(kind: DispatchTensorKind) -> Tracked {
    match kind {
        DispatchTensorKind::Flex(BackendTensor::Float(values)) => Tracked::new(values),
        DispatchTensorKind::Flex(BackendTensor::Autodiff(tensor)) => tensor,
        DispatchTensorKind::Autodiff(inner) => tracked(*inner),
        other => unreachable!("a tensor of the CPU is expected, not {other:?}"),
    }
}

fn record<O: Operation<N>, const N: usize>(operation: &O, inputs: [Tracked; N]) -> Tracked {
    let (values, nodes): (Vec<_>, Vec<_>) = inputs.map(Tracked::into_parts).into_iter().unzip();
    let (Ok(values), Ok(nodes)) = (values.try_into(), nodes.try_into()) else {
        unreachable!("as many as there are inputs");
    };
    let (output, saved) = operation.forward(values);
    let prepared = Recorded(operation.clone()).prepare::<NoCheckpointing>(nodes);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(saved, output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}

/// The backward pass of an operation.
#[derive(Debug)]
struct Recorded<O>(O);

impl<O: Operation<N>, const N: usize> Backward<Flex, N> for Recorded<O> {
    type State = O::Saved;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = gradients.consume::<Flex>(&ops.node);
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let found = self.0.backward(ops.state, gradient, wanted);
        for (node, gradient) in ops.parents.into_iter().zip(found) {
            if let (Some(node), Some(gradient)) = (node, gradient) {
                gradients.register::<Flex>(node.id, gradient);
            }
        }
    }
}
